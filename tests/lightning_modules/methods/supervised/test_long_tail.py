"""LADE, ProCo and causal norm as modules: what they add up, what they remember, what predicts."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn import functional

from lightning_modules.methods.supervised.lade import LADEModule
from lightning_modules.methods.supervised.proco import ProCoModule
from lightning_modules.methods.supervised.tde import TDEModule
from losses import CrossEntropy, LADELoss, LogitCompensatedCrossEntropy, ProCoLoss, log_prior

COUNTS = torch.tensor([90, 30, 5])
LABELS = torch.tensor([0, 1, 2, 0, 0])


class Features(nn.Module):
    """Stands for an encoder: the batches carry features."""

    hidden_size, frozen = 8, True


def build(kind, loss, **options):
    torch.manual_seed(0)
    return kind(Features(), loss, COUNTS, None, None, kind.__name__, dropout=0.0, **options)


def make_batch(num_views, seed=1):
    features = torch.randn(5 * num_views, 8, generator=torch.Generator().manual_seed(seed))
    return {"features": features, "labels": LABELS, "indices": torch.arange(5), "num_views": num_views}


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("target", ["uniform", "train"])
def test_lade_adds_the_prior_of_its_target_in_prediction_alone(bias, target):
    module, batch = build(LADEModule, LADELoss(), classifier_bias=bias, target_prior=target), make_batch(1)
    plain = functional.linear(batch["features"], module.classifier.weight, module.classifier.bias)
    expected = LADELoss()(plain, LABELS, COUNTS)
    assert module.training_losses(batch)["loss"].item() == pytest.approx(expected.item(), rel=1e-6)
    logits, head = module.eval()(batch)["logits"], module.prediction_head()
    torch.testing.assert_close(logits, plain + log_prior(COUNTS).float() if target == "train" else plain)
    torch.testing.assert_close(batch["features"] @ head["weight"].T + head["bias"], logits)


def test_proco_learns_its_classes_from_this_epoch_and_the_one_before():
    module, seen = build(ProCoModule, ProCoLoss(), projection_size=4, mu=0.3), {0: [], 1: [], 2: []}
    for epoch in (0, 1, 2):
        module.trainer = SimpleNamespace(current_epoch=epoch)
        module.on_train_epoch_start()
        for number in (0, 1):
            batch = make_batch(2, seed=3 * epoch + number)
            z, labels = module.project(batch["features"]), LABELS.repeat(2)
            seen[epoch].append(z.detach())
            in_use = torch.stack(seen[max(0, epoch - 1)] + (seen[epoch] if epoch else []))
            means = torch.stack([in_use[:, labels == c].flatten(0, 1).mean(0) for c in range(3)])
            losses = module.training_losses(batch)
            classified = LogitCompensatedCrossEntropy()(module.classifier(batch["features"]), labels, COUNTS)
            contrastive = ProCoLoss()(z, labels, means, COUNTS)
            assert losses["contrastive"].item() == pytest.approx(contrastive.item(), rel=1e-4)
            assert losses["loss"].item() == pytest.approx((classified + 0.3 * contrastive).item(), rel=1e-4)
    assert {"sums", "counts"} <= module.state_dict().keys()


def test_the_direction_of_tde_is_a_moving_sum_that_prediction_takes_away():
    module = build(TDEModule, CrossEntropy(), effect_strength=1.5, direction_momentum=0.5)
    first, second = make_batch(1, 1), make_batch(1, 2)
    for batch in (first, second):
        logits = module(batch)["logits"]
        expected = functional.cross_entropy(logits, LABELS)
        assert module.training_losses(batch)["loss"].item() == pytest.approx(expected.item(), rel=1e-6)
    direction = 0.5 * first["features"].mean(0) + second["features"].mean(0)
    torch.testing.assert_close(module.direction, direction)
    assert not torch.allclose(module.eval()(second)["logits"], logits)
    parts = second["features"].unflatten(1, (2, 4))
    embeddings = functional.normalize(parts, dim=2)
    unit = functional.normalize(direction.unflatten(0, (2, 4)), dim=1)
    effect = embeddings - 1.5 * (embeddings * unit).sum(2, keepdim=True) * unit
    weight = module.classifier.weight.unflatten(1, (2, 4))
    weight = weight / (weight.norm(dim=2, keepdim=True) + 1 / 32)
    torch.testing.assert_close(module(second)["logits"], 8 * torch.einsum("bkd,ckd->bc", effect, weight))
    head = module.prediction_head()
    torch.testing.assert_close(embeddings.flatten(1) @ head["weight"].T, module(second)["logits"])
    assert module.embedding_parts == 2 and "direction" in module.state_dict()


def test_heads_that_do_not_divide_the_embedding_are_named():
    with pytest.raises(ValueError, match="method.num_heads: found 3, allowed: a divisor of 8"):
        build(TDEModule, CrossEntropy(), num_heads=3)
