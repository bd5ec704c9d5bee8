"""Methods that change the classifier: what trains, what predicts, and the head that export writes."""

from types import SimpleNamespace

import pytest
import torch
from torch.nn import functional

from lightning_modules.methods.supervised.bcl import BCLModule
from lightning_modules.methods.supervised.ce import CrossEntropyModule
from lightning_modules.methods.supervised.ldam_drw import LDAMDRWModule
from lightning_modules.methods.supervised.post_hoc_logit_adjustment import PostHocLogitAdjustmentModule
from lightning_modules.methods.supervised.spcl import SPCLModule
from lightning_modules.methods.supervised.tde import TDEModule
from losses import (
    BalancedContrastiveLoss,
    CrossEntropy,
    LDAMLoss,
    SupervisedPrototypicalContrastiveLoss,
    class_balanced_weights,
    class_margins,
    log_prior,
)

COUNTS = torch.tensor([90, 30, 5])


class Features(torch.nn.Module):
    """Stands for an encoder: the batches carry features."""

    hidden_size, frozen = 8, False


def build(kind, loss, **options):
    torch.manual_seed(0)
    return kind(Features(), loss, COUNTS, None, None, kind.__name__, dropout=0.0, **options)


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(1)
    return {
        "features": torch.randn(12, 8, generator=generator),
        "labels": torch.arange(6) % 3,
        "indices": torch.arange(6),
        "num_views": 2,
    }


def at_epoch(module, epoch, of):
    module.trainer = SimpleNamespace(current_epoch=epoch, max_epochs=of)
    return module


@pytest.mark.parametrize("bias", [True, False])
def test_post_hoc_trains_as_cross_entropy_and_predicts_without_the_prior(batch, bias):
    plain = build(CrossEntropyModule, CrossEntropy(), classifier_bias=bias)
    adjusted = build(PostHocLogitAdjustmentModule, CrossEntropy(), classifier_bias=bias, adjustment_strength=0.7)
    adjusted.load_state_dict(plain.state_dict())  # the prior comes from the data, not from a checkpoint
    assert torch.equal(adjusted.training_losses(batch)["loss"], plain.training_losses(batch)["loss"])
    expected = plain.eval()(batch)["logits"] - 0.7 * log_prior(COUNTS).float()
    actual = adjusted.eval()(batch)["logits"]
    torch.testing.assert_close(actual, expected)
    assert (actual.argmax(1) == 2).sum() > (plain(batch)["logits"].argmax(1) == 2).sum()


def test_post_hoc_without_strength_is_cross_entropy(batch):
    plain = build(CrossEntropyModule, CrossEntropy()).eval()
    adjusted = build(PostHocLogitAdjustmentModule, CrossEntropy(), adjustment_strength=0.0).eval()
    assert torch.equal(adjusted(batch)["logits"], plain(batch)["logits"])


@pytest.mark.parametrize(
    ("kind", "loss", "options"),
    [
        (CrossEntropyModule, CrossEntropy(), {}),
        (PostHocLogitAdjustmentModule, CrossEntropy(), {}),
        (PostHocLogitAdjustmentModule, CrossEntropy(), {"classifier_bias": False}),
        (LDAMDRWModule, LDAMLoss(), {}),
    ],
)
def test_the_head_of_prediction_gives_the_logits(batch, kind, loss, options):
    module = build(kind, loss, **options).eval()
    head, embeddings = module.prediction_head(), batch["features"]
    if module.unit_norm_embeddings:
        embeddings = functional.normalize(embeddings, dim=1)
    logits = embeddings @ head["weight"].T + head.get("bias", 0)
    torch.testing.assert_close(logits, module(batch)["logits"])
    assert not any(tensor.requires_grad for tensor in head.values())


@pytest.mark.parametrize(
    ("kind", "loss"),
    [
        (BCLModule, BalancedContrastiveLoss()),
        (LDAMDRWModule, LDAMLoss()),
        (SPCLModule, SupervisedPrototypicalContrastiveLoss()),
        (TDEModule, CrossEntropy()),
    ],
)
def test_scores_are_in_full_precision_where_the_encoder_computes_in_bfloat16(batch, kind, loss):
    module = build(kind, loss).eval()
    if kind is SPCLModule:
        module.centres.copy_(torch.randn(3, 1, 8))
        module.is_centre.fill_(True)
    expected = module(batch)["logits"]
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(module(batch)["logits"], expected)


def test_the_head_of_spcl_gives_the_logits_of_a_class_without_a_centre_too(batch):
    module = build(SPCLModule, SupervisedPrototypicalContrastiveLoss()).eval()
    module.centres[:2] = functional.normalize(torch.randn(2, 1, 8), dim=2)
    module.is_centre[:2] = True
    head, output = module.prediction_head(), module(batch)
    torch.testing.assert_close(output["embeddings"] @ head["weight"].T + head["bias"], output["logits"])


def test_ldam_logits_are_scaled_cosines_without_a_margin(batch):
    module = build(LDAMDRWModule, LDAMLoss(scale=7.0)).eval()
    cosines = functional.cosine_similarity(batch["features"][:, None], module.classifier.weight[None], dim=2)
    torch.testing.assert_close(module(batch)["logits"], 7 * cosines)
    assert module.classifier.bias is None


@pytest.mark.parametrize(
    ("share", "epochs", "first"), [(0.8, 10, 8), (0.8, 3, 2), (0.8, 2, 1), (0.55, 20, 11), (0.0, 4, 0), (1.0, 4, 4)]
)
def test_reweighting_is_deferred_to_a_share_of_the_epochs(share, epochs, first):
    module = build(LDAMDRWModule, LDAMLoss(), reweight_from=share)
    assert [at_epoch(module, epoch, epochs).reweights for epoch in range(epochs)] == [
        epoch >= first for epoch in range(epochs)
    ]


def test_reweighting_by_steps_takes_the_last_fifth_however_few_the_epochs():
    module = build(LDAMDRWModule, LDAMLoss(), schedule_by="step")
    weighted = []
    for step in range(60):  # six epochs of ten
        module.trainer = SimpleNamespace(
            global_step=step, estimated_stepping_batches=60, current_epoch=step // 10, max_epochs=6
        )
        weighted.append(module.reweights)
    assert weighted == [step >= 48 for step in range(60)]


@pytest.mark.parametrize("epoch", [7, 8])
def test_ldam_weights_rows_from_then_on(batch, epoch):
    module = at_epoch(build(LDAMDRWModule, LDAMLoss()), epoch, 10)
    labels = batch["labels"].repeat(2)
    shifted = module.cosines(batch["features"]) - functional.one_hot(labels, 3) * class_margins(COUNTS).float()
    weights = class_balanced_weights(COUNTS).float() if epoch == 8 else None
    expected = functional.cross_entropy(30 * shifted, labels, weight=weights)
    torch.testing.assert_close(module.training_losses(batch)["loss"], expected)
