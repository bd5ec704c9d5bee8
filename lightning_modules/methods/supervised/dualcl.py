"""DualCL: the labels stand in the input, and their hidden states are the classifier."""

from __future__ import annotations

import inspect
from types import MappingProxyType
from typing import Annotated, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from lightning_modules.base import Batch, ClassifierModule
from lightning_modules.encoders.lora import base_model
from lightning_modules.encoders.packed import first_position
from lightning_modules.encoders.transformer import TextEncoder
from losses import CrossEntropy, DualContrastiveLoss, full_precision, gather


class DualCLModule(ClassifierModule):
    """L = (1 - mu) L_CE + mu L_Dual: `method=dualcl`.

    The encoder reads `[CLS] label_1 ... label_C [SEP] text [SEP]`. z is the hidden state at the first position,
    theta_c that of label c, the logits are z.theta_c; text and labels attend to each other, so every text has a
    classifier of its own. Embeddings of an evaluation step are z.
    Source: Chen et al. (2022) and its published code.

    Args:
        label_pieces: word pieces of what each class is called, C lists.
        mu: weight of the contrastive term (published: 0.5).
        label_tokens: `class_names` reads the pieces of the names that the data set gives its classes, `names` those of
            the labels as they stand in its files, theta_c is their mean (published: names of one piece); `learned` has
            one learned vector a class, started at the mean of its pieces, for long names and many classes.
        label_positions: `consecutive` numbers all tokens; `shared` starts every label at position 0, so that the order
            of labels says nothing and they take no positions from the text (published, but for the last label).

    The remaining arguments are those of `ClassifierModule`; there is no linear classifier.

    Raises:
        ValueError: a frozen encoder (its features would have to hold the labels), an encoder
            that takes no positions with `label_positions: shared`.
    """

    kinds = ("text",)
    losses = (DualContrastiveLoss,)
    reads_loss_when = "mu>0"
    pieces: Tensor
    owner: Tensor
    place: Tensor
    encoder_training = ("full", "top_layers")
    encodes_texts_alone = False
    reads_names = True  # learned labels start at them
    reads_when = MappingProxyType({"head_lr": "label_tokens=learned"})

    def __init__(
        self,
        *args,
        label_pieces: Annotated[list[list[int]], "with label_tokens=class_names|learned"],
        mu: Annotated[float, ">= 0", "<= 1"] = 0.5,
        label_tokens: Literal["class_names", "names", "learned"] = "class_names",
        label_positions: Literal["consecutive", "shared"] = "consecutive",
        **kwargs,
    ) -> None:
        super().__init__(*args, **kwargs)
        if not isinstance(self.encoder, TextEncoder):
            raise ValueError(f"encoder: found one of words, allowed with method={self.name}: transformers")
        self.shared_positions = label_positions == "shared"
        if self.shared_positions and not _takes_positions(self.encoder.model):
            kind = type(self.encoder.model).__name__
            raise ValueError(f"method.label_positions: found shared, allowed with {kind}: consecutive")
        del self.classifier
        self.classification_loss = CrossEntropy()
        self.mu = mu
        self._lay_out(label_pieces, learned=label_tokens == "learned")

    def _lay_out(self, label_pieces: list[list[int]], learned: bool) -> None:
        """The label part of every input: ids of its pieces, the class of each, its place within the label, all (P,)."""
        pieces = torch.tensor([piece for label in label_pieces for piece in label])
        owner = torch.tensor([c for c, label in enumerate(label_pieces) for _ in label])
        place = torch.tensor([k for label in label_pieces for k in range(len(label))])
        self.learned_labels = None
        if learned:
            vectors = self.encoder.model.get_input_embeddings().weight.detach()[pieces]
            self.learned_labels = nn.Parameter(_class_means(vectors[None], owner, self.num_classes)[0])
            owner, place = torch.arange(self.num_classes), torch.zeros(self.num_classes, dtype=torch.long)
        self.register_buffer("pieces", pieces, persistent=False)
        self.register_buffer("owner", owner, persistent=False)
        self.register_buffer("place", place, persistent=False)

    @property
    def prefix_length(self) -> int:
        """Positions that the labels and their separator add to every text."""
        return len(self.owner) + 1

    def token_states(self, batch: Batch) -> Tensor:
        """Last hidden states (B, 1 + P + L, D) of `[CLS]`, the P label pieces, `[SEP]`, and the rest of the text."""
        model, ids, mask = self.encoder.model, batch["input_ids"], batch["attention_mask"]
        embed = model.get_input_embeddings()
        # every text begins with its first token and ends with its separator, the last one that is not padding
        separators = ids.gather(1, mask.sum(1, keepdim=True).clamp_min(1) - 1)
        labels = embed(self.pieces) if self.learned_labels is None else self.learned_labels
        parts = [embed(ids[:, :1]), labels.expand(len(ids), -1, -1), embed(separators), embed(ids[:, 1:])]
        prefix = mask.new_ones(len(ids), self.prefix_length)
        options = {"attention_mask": torch.cat([mask[:, :1], prefix, mask[:, 1:]], dim=1)}
        if self.shared_positions:
            options["position_ids"] = self.positions(ids.shape[1]).expand(len(ids), -1)
        return model(inputs_embeds=torch.cat(parts, dim=1).to(model.dtype), **options).last_hidden_state

    def positions(self, length: int) -> Tensor:
        """Position ids (1 + P + L,) with `label_positions: shared`: labels from 0, then the separator and the text."""
        rest = torch.arange(1, length + 1, device=self.place.device)
        positions = torch.cat([self.place.new_zeros(1), self.place, rest])
        return positions + first_position(base_model(self.encoder.model))

    def represent(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """z (B, D) and theta (B, C, D)."""
        self._check_length(batch["input_ids"].shape[1])
        hidden = self.encode(self._hidden_states, batch["input_ids"], batch["attention_mask"])
        return self.dropout(hidden[:, 0]), hidden[:, 1:]

    def _hidden_states(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """States of the first token and of the classes, (B, 1 + C, D)."""
        hidden = self.token_states({"input_ids": input_ids, "attention_mask": attention_mask}).float()
        means = _class_means(hidden[:, 1 : self.prefix_length], self.owner, self.num_classes)
        return torch.cat([hidden[:, :1], means], dim=1)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """`embeddings` z (B, D) and `logits` z.theta_c (B, C)."""
        z, theta = self.represent(batch)
        return {"embeddings": z, "logits": _products(z, theta)}

    def _check_length(self, length: int) -> None:
        limit = getattr(self.encoder.model.config, "max_position_embeddings", None)
        needed = length + (1 if self.shared_positions else self.prefix_length)
        if limit is None:
            return
        limit -= first_position(base_model(self.encoder.model))
        if needed > limit:
            raise ValueError(
                f"dataset.max_length: text and labels take {needed} positions, allowed: {limit}; "
                f"method.label_positions=shared or method.label_tokens=learned take fewer"
            )

    def prediction_head(self) -> dict[str, Tensor]:
        raise ValueError(f"task=export: method={self.name} has a classifier of its own for every text; nothing to fold")

    def training_losses(self, batch: Batch) -> dict[str, Tensor]:
        views = batch["num_views"]
        labels = batch["labels"].repeat(views)
        z, theta = self.represent(batch)
        classification = self.classification_loss(_products(z, theta), labels)
        if self.mu == 0:
            return {"loss": classification}
        label_theta = functional.normalize(theta[torch.arange(len(labels), device=labels.device), labels], dim=1)
        z, label_theta, labels = (gather(x, views) for x in (functional.normalize(z, dim=1), label_theta, labels))
        contrastive = self.loss(z, label_theta, labels)
        loss = (1 - self.mu) * classification + self.mu * contrastive
        return {"loss": loss, "classification": classification, "contrastive": contrastive}


@full_precision
def _products(z: Tensor, theta: Tensor) -> Tensor:
    """(B, C) of z (B, D) and theta (B, C, D); float32 under autocast too."""
    return torch.einsum("bd,bcd->bc", z, theta)


def _takes_positions(model: nn.Module) -> bool:
    model = base_model(model)
    has_table = hasattr(getattr(model, "embeddings", None), "position_embeddings")
    return has_table and "position_ids" in inspect.signature(model.forward).parameters


def _class_means(states: Tensor, owner: Tensor, num_classes: int) -> Tensor:
    """Means (B, C, D) over the pieces of each class of states (B, P, D)."""
    sums = states.new_zeros(len(states), num_classes, states.shape[2]).index_add(1, owner, states)
    return sums / owner.bincount(minlength=num_classes).clamp_min(1).to(states)[:, None]
