"""A text classifier: a transformer, pooling over its tokens, and a linear classifier; perhaps another one of words.

This file lies in every folder that `task=export format=transformers` writes, and needs torch and transformers alone.
"""

from typing import Any

import torch
import transformers
from torch import Tensor, nn
from torch.nn import functional
from transformers.modeling_outputs import SequenceClassifierOutput


class KontrastConfig(transformers.PretrainedConfig):
    """What the classifier is made of.

    Args:
        encoder_class: of the transformer, in transformers.
        encoder: its config.
        pooling: `mean`, `first_token`, `last_token`, or `cls` (the transformer's own pooler).
        unit_norm_embeddings: whether embeddings are brought to unit length.
        embedding_parts: into how many equal parts they are cut for it, each of unit length.
        unit_norm_logits: whether logits are.
        classifier_bias: whether the linear classifier has a bias.
        reads_words: whether a linear classifier of words, TF-IDF of the tokens, is added.
        max_tokens: tokens of a text that are read.
        thresholds: of each label the probability above which it is predicted; None where a text has one label.
        kwargs: of transformers.
    """

    model_type = "kontrast"

    def __init__(
        self,
        encoder_class="BertModel",
        encoder=None,
        pooling="mean",
        unit_norm_embeddings=False,
        embedding_parts=1,
        unit_norm_logits=False,
        classifier_bias=True,
        reads_words=False,
        max_tokens=512,
        thresholds=None,
        **kwargs,
    ):
        self.encoder_class, self.encoder = encoder_class, encoder or {}
        self.pooling, self.max_tokens, self.thresholds = pooling, max_tokens, thresholds
        self.unit_norm_embeddings, self.unit_norm_logits = unit_norm_embeddings, unit_norm_logits
        self.embedding_parts = embedding_parts
        self.classifier_bias, self.reads_words = classifier_bias, reads_words
        super().__init__(**kwargs)


class KontrastForSequenceClassification(transformers.PreTrainedModel):
    """Token ids in, logits and embeddings out."""

    config_class = KontrastConfig
    _supports_sdpa = True
    inverse_frequency: Tensor

    def __init__(self, config: KontrastConfig) -> None:
        super().__init__(config)
        cls = getattr(transformers, config.encoder_class)
        encoder: Any = cls.config_class.from_dict(dict(config.encoder))
        encoder._attn_implementation = config._attn_implementation
        try:
            self.encoder = cls(encoder, **({} if config.pooling == "cls" else {"add_pooling_layer": False}))
        except TypeError:  # architectures without a pooler do not take the option
            self.encoder = cls(encoder)
        num_labels: Any = config.num_labels
        self.classifier = nn.Linear(encoder.hidden_size, num_labels, bias=config.classifier_bias)
        if config.reads_words:
            self.words = nn.Linear(encoder.vocab_size, num_labels, bias=False)
            self.register_buffer("inverse_frequency", torch.ones(encoder.vocab_size))
        self.post_init()

    def embed(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Token ids and mask (B, L), padded on the right, to embeddings (B, D)."""
        output = self.encoder(input_ids=input_ids, attention_mask=attention_mask)
        if self.config.pooling == "cls":
            embeddings = output.pooler_output
        elif self.config.pooling == "first_token":
            embeddings = output.last_hidden_state[:, 0]
        elif self.config.pooling == "last_token":
            last = (attention_mask.sum(1) - 1).clamp_min(0)
            embeddings = output.last_hidden_state[torch.arange(len(last), device=last.device), last]
        else:
            weights = attention_mask.unsqueeze(-1).to(output.last_hidden_state.dtype)
            embeddings = (output.last_hidden_state * weights).sum(1) / weights.sum(1).clamp_min(1.0)
        if not self.config.unit_norm_embeddings:
            return embeddings
        parts = embeddings.unflatten(-1, (self.config.embedding_parts, -1))
        return functional.normalize(parts, dim=-1).flatten(-2)

    def classify(self, embeddings: Tensor, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Embeddings (B, D), token ids and mask (B, L) to logits (B, C)."""
        logits = self.classifier(embeddings)
        if self.config.reads_words:
            counts = torch.zeros(input_ids.shape[0], len(self.inverse_frequency), device=input_ids.device)
            counts = counts.scatter_add(1, input_ids, attention_mask.float())
            weights = counts.log().add(1).where(counts > 0, 0.0) * self.inverse_frequency
            logits = logits + self.words(functional.normalize(weights, dim=1))
        return functional.normalize(logits, dim=-1) if self.config.unit_norm_logits else logits

    def forward(self, input_ids, attention_mask=None, labels=None, **unused) -> SequenceClassifierOutput:
        """Logits (B, C); with `labels` (B,), or (B, C) where texts have several, the loss too.

        Raises:
            ValueError: a text of more tokens than the run read of one.
        """
        if input_ids.shape[1] > self.config.max_tokens:
            raise ValueError(
                f"found a text of {input_ids.shape[1]} tokens, allowed: {self.config.max_tokens}, as in training "
                f"(truncation=True cuts it)"
            )
        attention_mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        logits = self.classify(self.embed(input_ids, attention_mask), input_ids, attention_mask)
        loss = None
        if labels is not None:
            one_label = self.config.thresholds is None
            entropy = functional.cross_entropy if one_label else functional.binary_cross_entropy_with_logits
            loss = entropy(logits, labels)
        return SequenceClassifierOutput(loss=loss, logits=logits)
