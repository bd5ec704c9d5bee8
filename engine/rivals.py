"""What the simplest method gives on the rows of a run: logistic regression over the encoder as it comes, or pixels."""

from __future__ import annotations

import numpy as np
import torch
from torch.nn import functional

from datamodules.datamodule import DataModule
from engine.plan import Plan
from lightning_modules.encoders.words import WordEncoder
from lightning_modules.heads.linear_solver import LinearSolution, solve_and_choose, solve_linear
from reporting.intervals import INTERVAL_METRICS
from reporting.metrics import classification_metrics

# or images, that are encoded for this alone; more texts where an earlier run has left their features in the cache
MOST_TEXTS = 3000


def rival_metrics(plan: Plan, datamodule: DataModule, split: str) -> dict[str, float]:
    """`logistic_accuracy` and `logistic_macro_f1` of a split: `method=logistic` on the same rows.

    The penalty is chosen on the validation rows, as there; where none are held out, or they are the test rows, it is
    scikit-learn's C = 1. Of images it reads the pixels. Nothing, where `rival=null`, texts have several labels or none,
    the encoder knows words alone, or more than `MOST_TEXTS` texts would have to be encoded, or images are to be solved.
    """
    if plan.plain.get("rival") is None or datamodule.multilabel or isinstance(plan.encoder, WordEncoder):
        return {}
    if np.count_nonzero(datamodule.class_counts) < 2:
        return {}
    has_val = "val" in datamodule.indices and datamodule.protocol.name != "published"
    splits = list(dict.fromkeys(["train", *(["val"] if has_val else []), split]))
    simplest = plan.encoder.simplest if reads_other(plan) else None
    rows_of = sum(len(datamodule.indices[name]) for name in splits)
    if (plan.texts_to_encode(datamodule, splits) if simplest is None else rows_of) > MOST_TEXTS:
        return {}
    features = plan.features(datamodule, splits=splits, source=simplest and simplest(plan.dataset))
    rows = {name: (torch.from_numpy(features[name][0]), torch.from_numpy(datamodule.labels[name])) for name in splits}
    solution = _solved(rows, datamodule.num_classes, has_val)
    predictions = (rows[split][0].double() @ solution.weight.T + solution.bias).argmax(1).numpy()
    metrics = classification_metrics(datamodule.labels[split], predictions, datamodule.num_classes)
    return {f"logistic_{name}": metrics[name] for name in INTERVAL_METRICS}


def reads_other(plan: Plan) -> bool:
    """Whether the rival reads something else than the run's encoder, which says so by `simplest`."""
    return hasattr(plan.encoder, "simplest")


def _solved(rows: dict[str, tuple[torch.Tensor, torch.Tensor]], num_classes: int, has_val: bool) -> LinearSolution:
    embeddings, labels = rows["train"]
    if has_val:
        return solve_and_choose(functional.cross_entropy, rows["train"], rows["val"], num_classes).best
    strength = 1 / float(embeddings.double().square().sum())
    return solve_linear(lambda logits: functional.cross_entropy(logits, labels), embeddings, num_classes, strength)
