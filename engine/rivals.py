"""What the simplest method gives on the rows of a run: logistic regression over the encoder as it comes, or pixels."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch.nn import functional

from datamodules.datamodule import DataModule
from engine.plan import Plan
from lightning_modules.base import ClassifierModule
from lightning_modules.encoders.words import WordEncoder
from lightning_modules.heads.label_solver import LabelRegressions
from lightning_modules.heads.linear_solver import LinearSolution, solve_and_choose, solve_linear
from lightning_modules.methods.multilabel.base import MultiLabelModule, Threshold
from reporting.intervals import INTERVAL_METRICS, MULTILABEL_INTERVAL_METRICS
from reporting.metrics import classification_metrics
from reporting.multilabel_metrics import best_threshold, multilabel_metrics

# or images, that are encoded for this alone; more texts where an earlier run has left their features in the cache
MOST_TEXTS = 3000
LEFT_OUT = "left_out"
Rows = dict[str, tuple[torch.Tensor, torch.Tensor]]  # embeddings (N, D) and labels of each split


def rival_metrics(plan: Plan, datamodule: DataModule, module: ClassifierModule, split: str) -> dict[str, float]:
    """`logistic_accuracy` and `logistic_macro_f1` of a split: `method=logistic` on the same rows. Where texts have
    several labels, `logistic_micro_f1` and `logistic_macro_f1`: `method=bce encoder.train=frozen` at the threshold that
    `module` says, chosen on validation rows where it is to be chosen.

    The penalty is chosen on the validation rows, as there; where none are held out, or they are the test rows, it is
    scikit-learn's C = 1, and a threshold that was to be chosen is 0.5. Of images it reads the pixels. Nothing, where
    `rival=null`, texts have no labels, or the encoder knows words alone. Where more than `MOST_TEXTS` texts would have
    to be encoded, or images are to be solved, and `rival` is not `always`, `left_out` says how many.
    """
    if plan.plain.get("rival") is None or isinstance(plan.encoder, WordEncoder):
        return {}
    if np.count_nonzero(datamodule.class_counts) < (1 if datamodule.multilabel else 2):
        return {}
    has_val = "val" in datamodule.indices and datamodule.protocol.name != "published"
    splits = list(dict.fromkeys(["train", *(["val"] if has_val else []), split]))
    simplest = plan.encoder.simplest if reads_other(plan) else None
    rows_of = sum(len(datamodule.indices[name]) for name in splits)
    new = plan.texts_to_encode(datamodule, splits) if simplest is None else rows_of
    if new > MOST_TEXTS and plan.plain["rival"] != "always":
        return {LEFT_OUT: new}
    features = plan.features(datamodule, splits=splits, source=simplest and simplest(plan.dataset))
    rows = {name: (torch.from_numpy(features[name][0]), torch.from_numpy(datamodule.labels[name])) for name in splits}
    if isinstance(module, MultiLabelModule):
        threshold = plan.plain["method"]["threshold"]  # as the run was given it, also where the method has chosen one
        metrics = _of_several(rows, "global" if threshold == "folds" else threshold, has_val, split)
        return {f"logistic_{name}": metrics[name] for name in MULTILABEL_INTERVAL_METRICS}
    solution = _solved(rows, datamodule.num_classes, has_val)
    predictions = solution.logits(rows[split][0]).argmax(1).numpy()
    metrics = classification_metrics(datamodule.labels[split], predictions, datamodule.num_classes)
    return {f"logistic_{name}": metrics[name] for name in INTERVAL_METRICS}


def reads_other(plan: Plan) -> bool:
    """Whether the rival reads something else than the run's encoder, which says so by `simplest`."""
    return hasattr(plan.encoder, "simplest")


def _solved(rows: Rows, num_classes: int, has_val: bool) -> LinearSolution:
    embeddings, labels = rows["train"]
    if has_val:
        return solve_and_choose(functional.cross_entropy, rows["train"], rows["val"], num_classes).best
    strength = 1 / float(embeddings.double().square().sum())
    return solve_linear(lambda logits: functional.cross_entropy(logits, labels), embeddings, num_classes, strength)


def _of_several(rows: Rows, threshold: Threshold, has_val: bool, split: str) -> dict[str, float]:
    """Figures of a split of binary logistic regressions, one a label."""
    rows = {name: (embeddings, labels.double()) for name, (embeddings, labels) in rows.items()}
    (embeddings, labels), solver = rows["train"], LabelRegressions(*rows["train"])
    if has_val:
        loss = functional.binary_cross_entropy_with_logits
        solution = solve_and_choose(loss, rows["train"], rows["val"], labels.shape[1], solve=solver.solve).best
    else:
        solution = solver.solve(1 / float(embeddings.double().square().sum()))
    scores = {name: solution.logits(of_split).sigmoid().numpy() for name, (of_split, _) in rows.items()}
    level: ArrayLike = 0.5
    if not isinstance(threshold, str):
        level = threshold
    elif has_val:
        level = best_threshold(rows["val"][1].numpy(), scores["val"], threshold)
    return multilabel_metrics(rows[split][1].numpy(), scores[split], level)
