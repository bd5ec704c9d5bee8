"""BCL as a module: what it adds up, which views enter which term, what predicts."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from lightning_modules.methods.supervised.bcl import BCLModule
from losses import BalancedContrastiveLoss, LogitCompensatedCrossEntropy

COUNTS = torch.tensor([90, 30, 5])
LABELS = torch.tensor([0, 1, 2, 0, 0])


class Features(nn.Module):
    """Stands for an encoder: the batches carry features."""

    hidden_size, frozen = 8, True


def build(loss=None, **options):
    torch.manual_seed(0)
    options = {"dropout": 0.0, "projection_size": 4, "num_views": 2, **options}
    return BCLModule(Features(), loss or BalancedContrastiveLoss(0.2), COUNTS, None, None, "bcl", **options)


def make_batch(num_views):
    features = torch.randn(5 * num_views, 8, generator=torch.Generator().manual_seed(1))
    return {"features": features, "labels": LABELS, "indices": torch.arange(5), "num_views": num_views}


@pytest.mark.parametrize(
    ("views", "num_views", "classified", "contrasted"),
    [("shared", 2, slice(0, 10), slice(0, 10)), ("separate", 3, slice(0, 5), slice(5, 15))],
)
def test_loss_is_the_sum_of_its_terms_over_their_views(views, num_views, classified, contrasted):
    module, batch = build(mu=0.3, views=views, num_views=num_views), make_batch(num_views)
    losses = module.training_losses(batch)
    labels, features = LABELS.repeat(num_views), batch["features"]
    weight = module.classifier.weight
    cosines = functional.cosine_similarity(features[classified, None], weight[None], dim=2)
    classification = LogitCompensatedCrossEntropy()(30 * cosines, labels[classified], COUNTS)
    contrastive = BalancedContrastiveLoss(0.2)(
        module.project_features(features[contrasted]), labels[contrasted], module.project_prototypes(weight)
    )
    assert losses["classification"].item() == pytest.approx(classification.item(), abs=1e-5)
    assert losses["contrastive"].item() == pytest.approx(contrastive.item(), abs=1e-5)
    assert losses["loss"].item() == pytest.approx((classification + 0.3 * contrastive).item(), abs=1e-5)
    losses["loss"].backward()
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in module.parameters())


def test_without_weight_there_is_no_contrastive_term():
    assert set(build(mu=0.0).training_losses(make_batch(2))) == {"loss"}


@pytest.mark.parametrize("scale", [30.0, None])
def test_the_head_of_prediction_gives_the_logits_without_the_prior(scale):
    module, batch = build(cosine_scale=scale).eval(), make_batch(2)
    embeddings = batch["features"]
    if module.unit_norm_embeddings:
        embeddings = functional.normalize(embeddings, dim=1)
    assert module.unit_norm_embeddings == (scale is not None)
    torch.testing.assert_close(embeddings @ module.prediction_head()["weight"].T, module(batch)["logits"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"views": "separate", "num_views": 1}, "method.num_views: found 1, allowed: >= 2"),
        ({"classifier_bias": True}, "method.classifier_bias: found true, allowed: false"),
    ],
)
def test_what_does_not_fit_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        build(**options)
