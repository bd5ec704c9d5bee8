"""Nothing trained: class names, labelled rows and unlabelled texts place a linear classifier over a frozen encoder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import torch
from torch import Tensor
from torch.nn import functional

from lightning_modules.base import ClassifierModule
from lightning_modules.heads.discriminant import (
    ANCHOR_ROWS,
    LABEL_ROWS,
    NAME_ROWS,
    SHRINKAGE,
    Discriminant,
    best_discriminant,
    nearest_prototype,
)
from lightning_modules.methods.few_labels.class_names import ClassNames

LEARNED = ("train", "unlabelled")  # what is learned from, in this order


class PrototypesModule(ClassifierModule):
    """Prototypes of names and labels, refined by EM on the unlabelled texts: `method=prototypes`, `nearest_name`.

    Args:
        class_names: the names; None where the labels are codes and no descriptions are given.
        use_names: false withholds them.
        anchor_rows: a class name counts as so many labelled rows, >= 0.
        label_rows: a labelled row counts as so many unlabelled ones, >= 1.
        shrinkage: of the covariance towards a multiple of the identity, 0 < s <= 1; of few texts it is more.
        name_rows: in EM the name of a class without texts counts as so many, of one with 100 as none, >= 0.
        max_steps: of EM; 0 leaves the prototypes as they are.
        classifier_bias: the prototypes have one.

    The remaining arguments are those of `ClassifierModule`. See `lightning_modules.heads.discriminant` for formulas.
    """

    kinds = ("text",)
    unit_norm_embeddings = True
    encoder_training: ClassVar[tuple[str, ...]] = ("frozen",)
    protocols: ClassVar[tuple[str, ...]] = ("fixed",)
    losses: ClassVar[tuple] = ()
    unused_groups: ClassVar[tuple[str, ...]] = (
        *("loss", "head", "augment", "optimizer", "scheduler", "callbacks", "active", "start_from"),
    )
    needs_labels = False
    reads_unlabelled: ClassVar[bool | str] = "method.max_steps>0"
    is_solved = True

    def __init__(
        self,
        *args: Any,
        class_names: Annotated[ClassNames | None, "with use_names=True"] = None,
        use_names: bool = True,
        anchor_rows: Annotated[float, ">= 0"] = ANCHOR_ROWS,
        label_rows: Annotated[float, ">= 1"] = LABEL_ROWS,
        shrinkage: Annotated[float, "> 0", "<= 1"] = SHRINKAGE,
        name_rows: Annotated[float, ">= 0"] = NAME_ROWS,
        max_steps: Annotated[int, ">= 0"] = 10,
        classifier_bias: Literal[True] = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs | {"classifier_bias": classifier_bias})
        self.class_names = class_names if use_names else None
        if self.class_names is None and not self.class_counts.any():
            labels = "0, and no names to read" if use_names else "0 beside method.use_names=false"
            raise ValueError(
                f"dataset.labels: found {labels}; allowed: names (dataset.class_descriptions=FILE), "
                "some labels, or task=cluster for topics"
            )
        self.anchor_rows, self.label_rows = anchor_rows, label_rows
        self.shrinkage, self.name_rows, self.max_steps = shrinkage, name_rows, max_steps

    def logits(self, embeddings: Tensor) -> Tensor:
        """Scores (B, C) of embeddings (B, D) brought to unit length, in full precision: cosines of names lie close."""
        with torch.autocast(embeddings.device.type, enabled=False):
            return self.classifier(functional.normalize(embeddings.float(), dim=1))

    def information(self, has_unlabelled: bool) -> str:
        looks_for_a_class = self.class_names is None and not self.class_counts.all()  # among the texts
        reads_unlabelled = has_unlabelled and bool(self.max_steps or self.trains_unlabelled or looks_for_a_class)
        return ("N" if self.class_names is not None else "") + ("U" if reads_unlabelled else "")

    @torch.no_grad()
    def solve(self, splits: Mapping[str, tuple[Any, Tensor]]) -> dict[str, Any]:
        """Place the classifier by the train rows and the unlabelled ones, whose labels are -1."""
        embeddings, labels = joined(splits)
        solution = self.discriminant(functional.normalize(embeddings, dim=1), labels)
        self.set_classifier(solution.weight, solution.bias)
        return {"solver/steps": solution.steps}

    @torch.no_grad()
    def discriminant(self, embeddings: Tensor, labels: Tensor) -> Discriminant:
        """Of unit-length embeddings (N, D) by the encoder as it comes; labels (N,) are -1 where there is none."""
        rows = (embeddings, labels, self.anchors(), self.num_classes, self.anchor_rows)
        if self.max_steps and bool((labels < 0).any()):
            return best_discriminant(*rows, self.shrinkage, self.label_rows, self.max_steps, self.name_rows)
        return nearest_prototype(*rows)

    @torch.no_grad()
    def anchors(self) -> Tensor | None:
        """(C, D) embeddings of the names by the encoder as it is; None without names."""
        return self.class_names(self.encoder.eval()) if self.class_names is not None else None


def joined(splits: Mapping[str, tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """Embeddings (N, D) and labels (N,) of what is learned from: the train rows, then those without a label."""
    parts = [splits[split] for split in LEARNED if split in splits]
    return torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])
