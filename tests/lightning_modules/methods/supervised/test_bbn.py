"""BBN as a module: two branches, the share between them, and their sum in prediction."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn import functional

from lightning_modules.methods.supervised.bbn import BBNModule
from losses import BilateralLoss
from tests.lightning_modules.methods.supervised.test_classification import COUNTS, Features


def build(step=0, epoch=0, **options):
    torch.manual_seed(0)
    module = BBNModule(Features(), BilateralLoss(), COUNTS, None, None, "bbn", dropout=0.0, **options)
    for block in (module.branch, module.other_branch):
        nn.init.normal_(block.layers[2].weight)
    module.trainer = SimpleNamespace(global_step=step, estimated_stepping_batches=10, current_epoch=epoch, max_epochs=4)
    return module


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(1)
    labels = torch.tensor([0, 0, 1, 0, 1, 0, 2, 2, 1, 2, 2, 2])
    return {"features": torch.randn(12, 8, generator=generator), "labels": labels, "num_views": 1}


def slow_branch(block, classifier, z):
    hidden = (z @ block.layers[0].weight.T + block.layers[0].bias).clamp_min(0)
    return classifier(z + hidden @ block.layers[2].weight.T + block.layers[2].bias)


def test_the_halves_of_a_batch_go_through_their_own_branches(batch):
    module = build(step=5)
    first = slow_branch(module.branch, module.classifier, batch["features"][:6])
    second = slow_branch(module.other_branch, module.other_classifier, batch["features"][6:])
    mixed, share = 2 * (0.75 * first + 0.25 * second), 0.75  # 1 - (5 / 10)^2
    own, other = (functional.cross_entropy(mixed, labels) for labels in batch["labels"].split(6))
    losses = module.training_losses(batch)
    torch.testing.assert_close(losses["loss"], share * own + (1 - share) * other)
    assert losses["share"].item() == share


def test_prediction_is_the_sum_of_both_branches(batch):
    module = build().eval()
    expected = slow_branch(module.branch, module.classifier, batch["features"])
    expected = expected + slow_branch(module.other_branch, module.other_classifier, batch["features"])
    torch.testing.assert_close(module(batch)["logits"], expected)
    with pytest.raises(ValueError, match="task=export: method=bbn"):
        module.prediction_head()


def test_the_share_falls_from_the_first_branch_to_the_second(batch):
    assert [build(step=step).share() for step in (0, 5, 10)] == [1, 0.75, 0]
    assert [build(step=9, epoch=epoch, schedule_by="epoch").share() for epoch in (0, 2)] == [1, 0.75]
    module = build(step=0)  # the second branch learns nothing yet
    module.training_losses(batch)["loss"].backward()
    assert module.classifier.weight.grad.any() and not module.other_classifier.weight.grad.any()


def test_branches_begin_as_the_embedding():
    module = BBNModule(Features(), BilateralLoss(), COUNTS, None, None, "bbn")
    z = torch.randn(3, 8, generator=torch.Generator().manual_seed(0))
    assert torch.equal(module.branch(z), z) and torch.equal(module.other_branch(z), z)
