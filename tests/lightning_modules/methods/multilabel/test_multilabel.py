"""Methods for several labels a text: what they minimise, their figures, and batches that have nothing to learn from."""

import json
import math
from pathlib import Path

import pytest
import torch

from lightning_modules.methods.multilabel.base import LabelScores
from lightning_modules.methods.multilabel.bce import BinaryCrossEntropyModule
from lightning_modules.methods.multilabel.knn_mltc import KNNMultiLabelModule
from lightning_modules.methods.supervised.scl_hnm import SCLHNMMultiLabelModule
from losses import (
    BinaryCrossEntropy,
    HardNegativeContrastiveLoss,
    MultiLabelContrastiveLoss,
    SupervisedContrastiveLoss,
)
from reporting.multilabel_metrics import best_threshold, multilabel_metrics
from tests.lightning_modules.methods.supervised.test_classification import Features

CASES = json.loads((Path(__file__).parents[3] / "golden" / "knn_mltc.json").read_text())["cases"]


def build(kind, loss, **options):
    torch.manual_seed(0)
    return kind(Features(), loss, torch.tensor([5, 3, 2]), None, None, "it", dropout=0.0, **options)


def batch_of(labels, views=2):
    generator = torch.Generator().manual_seed(1)
    labels = torch.tensor(labels, dtype=torch.float32)
    return {
        "features": torch.randn(views * len(labels), 8, generator=generator),
        "labels": labels,
        "indices": torch.arange(len(labels)),
        "num_views": views,
    }


LABELS = [[1, 0, 1], [0, 0, 0], [1, 1, 0], [0, 0, 1]]


@pytest.mark.parametrize("initial", [0.01, 0.2])
def test_every_label_starts_with_its_probability(initial):
    module = build(BinaryCrossEntropyModule, BinaryCrossEntropy(), initial_probability=initial)
    torch.testing.assert_close(module.probabilities(module.logits(torch.zeros(2, 8))), torch.full((2, 3), initial))
    assert build(BinaryCrossEntropyModule, BinaryCrossEntropy(), classifier_bias=False).classifier.bias is None


def slow_bce(logits, labels):
    total = 0.0
    for row, targets in zip(logits.tolist(), labels.tolist(), strict=True):
        for logit, target in zip(row, targets, strict=True):
            p = 1 / (1 + math.exp(-logit))
            total -= target * math.log(p) + (1 - target) * math.log(1 - p)
    return total / logits.numel()


def test_bce_is_the_mean_over_rows_and_labels_of_all_views():
    module, batch = build(BinaryCrossEntropyModule, BinaryCrossEntropy()), batch_of(LABELS)
    logits = module(batch)["logits"]
    expected = slow_bce(logits, torch.cat([batch["labels"]] * 2))
    assert module.training_losses(batch)["loss"].item() == pytest.approx(expected, abs=1e-6)
    evaluated = module.eval().evaluation_loss(logits[:4], batch["labels"])
    assert evaluated.item() == pytest.approx(slow_bce(logits[:4], batch["labels"]), abs=1e-6)


def test_golden_bce():
    case = next(case for case in CASES if case["id"] == "bce")
    logits, targets = (torch.tensor(case["inputs"][key], dtype=torch.float64) for key in ("logits", "targets"))
    assert BinaryCrossEntropy()(logits, targets).item() == pytest.approx(case["expected"]["mean_all"], abs=1e-12)


@pytest.mark.parametrize("gamma", [0.0, 0.3])
def test_the_contrastive_term_is_weighed_by_gamma(gamma):
    loss, batch = MultiLabelContrastiveLoss(), batch_of(LABELS)
    module = build(KNNMultiLabelModule, loss, gamma=gamma)
    parts = module.training_losses(batch)
    labels = torch.cat([batch["labels"]] * 2)
    classification = BinaryCrossEntropy()(module(batch)["logits"], labels)
    torch.testing.assert_close(parts["loss"], classification + gamma * loss(batch["features"], labels))
    assert ("contrastive" in parts) == (gamma > 0)


@pytest.mark.parametrize("labels", [[[0, 0, 0]] * 4, [[1, 0, 1]] * 4, torch.eye(3).tolist()])
def test_no_labels_the_same_labels_and_no_shared_ones_give_finite_gradients(labels):
    module, batch = build(KNNMultiLabelModule, MultiLabelContrastiveLoss(), gamma=1.0), batch_of(labels, views=1)
    batch["features"][1] = batch["features"][0]  # distance 0
    batch["features"].requires_grad_()
    parts = module.training_losses(batch)
    parts["loss"].backward()
    assert torch.isfinite(batch["features"].grad).all()
    shared = torch.tensor(labels, dtype=torch.float32)
    if not (shared @ shared.T).fill_diagonal_(0).any():
        assert parts["contrastive"] == 0


@pytest.mark.parametrize("threshold", [0.5, 0.8, "global", "per_label"])
def test_figures_while_training_are_those_of_the_report(threshold):
    generator = torch.Generator().manual_seed(2)
    logits, labels = torch.randn(40, 5, generator=generator), (torch.rand(40, 5, generator=generator) < 0.3).float()
    labels[:, 4], logits[:, 4] = 0, -9.0  # a label that occurs nowhere
    logits = logits.round(decimals=1)  # equal scores, and thresholds that are as good as each other
    scores = LabelScores(threshold, "val/")
    for part in range(0, 40, 16):
        scores.update(logits[part : part + 16], labels[part : part + 16])
    chosen = best_threshold(labels, logits.sigmoid(), threshold) if isinstance(threshold, str) else threshold
    actual, expected = scores.compute(), multilabel_metrics(labels, logits.sigmoid(), chosen)
    assert actual.keys() == {"val/accuracy", "val/macro_f1", "val/micro_f1"}
    assert actual["val/accuracy"].item() == pytest.approx(expected["subset_accuracy"])
    for name in ("macro_f1", "micro_f1"):
        assert actual[f"val/{name}"].item() == pytest.approx(expected[name])


def test_figures_where_nothing_occurs_and_nothing_is_predicted():
    scores = LabelScores(0.5, "")
    scores.update(torch.full((3, 2), -5.0), torch.zeros(3, 2))
    assert {name: value.item() for name, value in scores.compute().items()} == {
        "accuracy": 1.0,
        "macro_f1": 0.0,
        "micro_f1": 0.0,
    }


def test_shapes_of_the_other_kind_are_refused():
    with pytest.raises(ValueError, match=r"must both be \(B, C\)"):
        BinaryCrossEntropy()(torch.zeros(2, 3), torch.zeros(2))


@pytest.mark.parametrize("loss", [HardNegativeContrastiveLoss(0.3, 2), SupervisedContrastiveLoss(0.3)])
def test_scl_hnm_beside_bce_is_the_sum_of_its_parts_over_all_views(loss):
    module, batch = build(SCLHNMMultiLabelModule, loss, alpha=0.4), batch_of(LABELS)
    output, labels = module(batch), torch.cat([batch["labels"]] * 2)
    losses = module.training_losses(batch)
    contrast = loss(torch.nn.functional.normalize(output["embeddings"], dim=1), labels)
    assert losses["contrastive"].item() == pytest.approx(contrast.item(), abs=1e-6) and contrast > 0
    expected = slow_bce(output["logits"], labels) + 0.4 * contrast.item()
    assert losses["loss"].item() == pytest.approx(expected, abs=1e-6)
    assert build(SCLHNMMultiLabelModule, loss, alpha=0.0).training_losses(batch).keys() == {"loss"}
