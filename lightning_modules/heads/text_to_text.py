"""Classes as words that an encoder-decoder generates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from lightning_modules.encoders.transformer import PretrainedEncoder, TextEncoder

FAMILY = ("t5", "mt5", "umt5")
NO_CLASS = -1  # an answer that is none
IGNORED = -100  # in targets: no token
Scores = Literal["label_words", "first_token"]
Unparsable = Literal["error", "first_class"]


class TextToText:
    """What `head=text_to_text` says.

    Source: the published code of SCL-HNM (LREC 2026) and of Ahmadnia et al. (NAACL 2025), flan-t5-base.

    Args:
        name: of the head.
        label_words: what stands for each class, in the order of the classes; null: their names, underscores as spaces.
        scores: what the probabilities of the classes, which query strategies read, are made of: the likelihood of the
            whole words (`label_words`), or of their first tokens at the first step (`first_token`; the published code
            takes the step of the first four whose token begins a word, and zeros where there is none).
        unparsable: an answer that begins with no label word is an error, or counts as the `first_class`.
        max_new_tokens: longest answer.
    """

    kinds = ("text",)
    reads_names = True

    def __init__(
        self,
        name: str = "text_to_text",
        label_words: list[str] | None = None,
        scores: Scores = "label_words",
        unparsable: Unparsable = "error",
        max_new_tokens: Annotated[int, ">= 1"] = 20,
    ) -> None:
        self.label_words = None if label_words is None else [str(word) for word in label_words]
        self.name, self.scores, self.unparsable, self.max_new_tokens = name, scores, unparsable, max_new_tokens

    def build(self, encoder: PretrainedEncoder, label_names: Sequence[str]) -> tuple[TextEncoder, TextToTextHead]:
        """The encoder half under its pooling, and the decoder half as the head.

        Raises:
            ValueError: a model of another family, or words that do not fit the classes.
        """
        from transformers import AutoConfig, AutoModelForSeq2SeqLM

        kind = AutoConfig.from_pretrained(encoder.folder()).model_type
        if kind not in FAMILY:
            raise ValueError(f"head=text_to_text: found encoder={encoder.name} ({kind}); allowed: {', '.join(FAMILY)}")
        words = self.label_words or [name.replace("_", " ") for name in label_names]
        if len(words) != len(label_names):
            raise ValueError(f"head.label_words: found {len(words)}; allowed: {len(label_names)}, one a class")
        model = AutoModelForSeq2SeqLM.from_pretrained(encoder.folder(), dtype=torch.float32)
        half, model.encoder = model.encoder, None  # its weights belong to the encoder alone
        half.config.use_cache = False
        options = (self.scores, self.unparsable, self.max_new_tokens)
        head = TextToTextHead(model, encoder.tokenizer(), words, *options)
        return TextEncoder(half, encoder.pooling, encoder.training, encoder.num_top_layers).train(), head.train()


class TextToTextHead(nn.Module):
    """The decoder over the states of the encoder, and what its answers mean.

    Args:
        model: a `transformers` encoder-decoder without its encoder.
        tokenizer: with an end token.
        words: what stands for each class, (C,).
        scores, unparsable, max_new_tokens: see `TextToText`.

    Raises:
        ValueError: two classes that cannot be told apart.
    """

    reads_names = TextToText.reads_names
    targets: Tensor

    def __init__(
        self,
        model: nn.Module,
        tokenizer,
        words: Sequence[str],
        scores: Scores = "label_words",
        unparsable: Unparsable = "error",
        max_new_tokens: int = 20,
    ) -> None:
        super().__init__()
        self.model: Any = model
        self.tokenizer = tokenizer
        self.words = [_folded(word) for word in words]
        self.scores, self.unparsable, self.max_new_tokens = scores, unparsable, max_new_tokens
        ids = [tokenizer(word, add_special_tokens=False)["input_ids"] for word in words]
        self.end = tokenizer.eos_token_id
        longest = max(map(len, ids)) + 1
        rows = [[*row, self.end, *[IGNORED] * (longest - len(row) - 1)] for row in ids]
        self.register_buffer("targets", torch.tensor(rows), persistent=False)
        keys = [tuple(row) for row in ids] if scores == "label_words" else [row[:1] and row[0] for row in ids]
        if len(set(self.words)) < len(words) or len(set(map(str, keys))) < len(words):
            raise ValueError(
                f"head.label_words: found classes of the same {'tokens' if scores == 'label_words' else 'first token'} "
                f"among {', '.join(words)}; allowed: words that differ"
            )

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        """States (B, L, D) of the encoder and mask (B, L) -> scores (B, C) in float32, whose softmax are probabilities:
        the log-likelihood of each label word with its end, or the logit of its first token."""
        if self.scores == "first_token":
            return self._token_logits(states, mask, self._start(len(states)))[:, 0, self.targets[:, 0]]
        columns = [self._log_likelihood(states, mask, target.expand(len(states), -1)) for target in self.targets]
        return torch.stack(columns, dim=1)

    def loss(self, states: Tensor, mask: Tensor, labels: Tensor) -> Tensor:
        """Cross-entropy of the tokens of the right words (labels (B,)), the mean over all tokens of the batch."""
        targets = self.targets[labels]
        logits = self._token_logits(states, mask, self._shifted(targets))
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED)

    @torch.no_grad()
    def answers(self, states: Tensor, mask: Tensor) -> Tensor:
        """What is generated greedily, as classes (B,); `NO_CLASS` for what is none of them."""
        ids = self._start(len(states))
        done = torch.zeros(len(states), dtype=torch.bool, device=states.device)
        for _ in range(self.max_new_tokens):
            following = self._token_logits(states, mask, ids)[:, -1].argmax(1)
            following = following.masked_fill(done, self.tokenizer.pad_token_id)
            ids = torch.cat([ids, following[:, None]], dim=1)
            done |= following == self.end
            if done.all():
                break
        texts = self.tokenizer.batch_decode(ids, skip_special_tokens=True)
        return torch.tensor([self.class_of(text) for text in texts], dtype=torch.long, device=states.device)

    def class_of(self, answer: str) -> int:
        """The class whose words an answer begins with, the longest of several."""
        answer = _folded(answer)
        begun = [number for number, words in enumerate(self.words) if f"{answer} ".startswith(f"{words} ")]
        if begun:
            return max(begun, key=lambda number: len(self.words[number]))
        return 0 if self.unparsable == "first_class" else NO_CLASS

    def _log_likelihood(self, states: Tensor, mask: Tensor, targets: Tensor) -> Tensor:
        logits = self._token_logits(states, mask, self._shifted(targets))
        tokens = functional.cross_entropy(logits.transpose(1, 2), targets, ignore_index=IGNORED, reduction="none")
        return -tokens.sum(1)

    def _token_logits(self, states: Tensor, mask: Tensor, ids: Tensor) -> Tensor:
        inputs = {"encoder_outputs": (states,), "attention_mask": mask, "decoder_input_ids": ids, "use_cache": False}
        return self.model(**inputs).logits.float()

    def _start(self, rows: int) -> Tensor:
        return self.targets.new_full((rows, 1), self.model.config.decoder_start_token_id)

    def _shifted(self, targets: Tensor) -> Tensor:
        ids = targets[:, :-1].masked_fill(targets[:, :-1] == IGNORED, self.tokenizer.pad_token_id)
        return torch.cat([self._start(len(targets)), ids], dim=1)


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())
