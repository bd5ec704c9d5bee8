"""What every format writes: the encoder, the linear classifier on its embeddings, and what they need to be used."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from engine.finished import shown_id
from engine.plan import Plan
from lightning_modules.base import ClassifierModule
from lightning_modules.encoders.lora import plain_model
from storage.run_store import RunFolder
from tasks.export.modeling_kontrast import KontrastConfig, KontrastForSequenceClassification
from tasks.sure import ASKED, CHOSEN


@dataclass
class Classifier:
    """A run as encoder and linear classifier.

    Attributes:
        encoder: the transformer, adapters merged.
        tokenizer: cuts texts to `max_length` tokens where it is told to cut.
        head: `weight` (C, D) and perhaps `bias` (C,); where words count too `words` (C, V), `inverse_frequency` (V,).
        thresholds: of each label, (C,); None where a text has one label.
        abstention: of a model of `task=auto`, the `threshold` from which on answers are sure and the `precision` that
            was asked of these; None where there is none.
        metrics: figures of the test rows.
    """

    run: str
    method: str
    encoder: Any
    tokenizer: Any
    head: dict[str, Tensor]
    label_names: tuple[str, ...]
    pooling: str
    unit_norm_embeddings: bool
    embedding_parts: int
    unit_norm_logits: bool
    max_length: int
    thresholds: list[float] | None
    abstention: dict[str, float] | None
    metrics: dict[str, Any]

    @property
    def reads_words(self) -> bool:
        """Whether the words of a text count beside its embedding."""
        return "words" in self.head

    def model(self) -> KontrastForSequenceClassification:
        """The two as one model of transformers, in eval mode; the encoder is shared with this one's."""
        config = KontrastConfig(
            encoder_class=type(self.encoder).__name__,
            encoder=self.encoder.config.to_dict(),
            pooling=self.pooling,
            unit_norm_embeddings=self.unit_norm_embeddings,
            embedding_parts=self.embedding_parts,
            unit_norm_logits=self.unit_norm_logits,
            classifier_bias="bias" in self.head,
            reads_words=self.reads_words,
            max_tokens=self.max_length,
            thresholds=self.thresholds,
            id2label=dict(enumerate(self.label_names)),
            label2id={name: number for number, name in enumerate(self.label_names)},
            problem_type="single_label_classification" if self.thresholds is None else "multi_label_classification",
        )
        model = KontrastForSequenceClassification(config)
        model.encoder = self.encoder
        head = dict(self.head)
        if self.reads_words:
            model.words.load_state_dict({"weight": head.pop("words")})
            model.inverse_frequency.copy_(head.pop("inverse_frequency"))
        model.classifier.load_state_dict(head)
        return model.eval()


def classifier_of(
    run: RunFolder, plan: Plan, module: ClassifierModule, head: dict[str, Tensor], label_names: tuple[str, ...]
) -> Classifier:
    """The parts of a run's module, whose adapters are merged: it is not to be used after this."""
    metrics = run.read_metrics()
    tokenizer = copy.deepcopy(plan.encoder.tokenizer())
    tokenizer.model_max_length = plan.dataset.max_length
    thresholds = np.broadcast_to(metrics["threshold"], len(label_names)).tolist() if module.multilabel else None
    return Classifier(
        run=shown_id(run),
        method=module.name,
        encoder=plain_model(module.encoder.model).eval(),
        tokenizer=tokenizer,
        head={name: tensor.detach().float().contiguous() for name, tensor in head.items()},
        label_names=label_names,
        pooling=plan.encoder.pooling,
        unit_norm_embeddings=module.unit_norm_embeddings,
        embedding_parts=module.embedding_parts,
        unit_norm_logits=module.unit_norm_logits,
        max_length=plan.dataset.max_length,
        thresholds=thresholds,
        abstention=_abstention_of(metrics),
        metrics={name: value for name, value in metrics.items() if name.startswith("test/")},
    )


def _abstention_of(metrics: Mapping[str, Any]) -> dict[str, float] | None:
    kept = {"threshold": metrics.get(CHOSEN), "precision": metrics.get(ASKED)}
    return None if kept["threshold"] is None else {key: value for key, value in kept.items() if value is not None}


def as_probabilities(logits: Tensor, several_labels: bool) -> Tensor:
    """Of the classes (B, C)."""
    return logits.sigmoid() if several_labels else logits.softmax(-1)


def sample_texts(label_names: Sequence[str]) -> list[str]:
    """Texts of several lengths, some beyond what the model reads."""
    words = " ".join(label_names).split()[:20] or ["text"]
    return ["a", "a text", *words, " ".join(words), 'Ünlike 日本, "quoted"; (2) texts\n' * 4, "a longer text " * 200]
