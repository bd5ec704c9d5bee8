"""The tau-normalised classifier: trained as cross-entropy, an exponent from validation rows, predicted with."""

import pytest
import torch

from lightning_modules.methods.supervised.ce import CrossEntropyModule
from lightning_modules.methods.supervised.tau_norm import EXPONENTS, TauNormModule
from losses import CrossEntropy
from tests.lightning_modules.methods.supervised.test_classification import COUNTS, Features, build

WEIGHT = torch.tensor([[4.0, 0.0], [0.0, 1.0], [-0.5, -0.5]])


def with_weights(**options):
    encoder = Features()
    encoder.hidden_size = 2
    module = TauNormModule(encoder, CrossEntropy(), COUNTS, None, None, "tau_norm", dropout=0.0, **options).eval()
    with torch.no_grad():
        module.classifier.weight.copy_(WEIGHT)
    return module


def rows(seed=0, number=60):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(number, 2, generator=generator), torch.randint(3, (number,), generator=generator)


def slow_logits(z, exponent):
    return [[float(z_i @ w / w.norm() ** exponent) for w in WEIGHT] for z_i in z]


def slow_recall(z, labels, exponent):
    hits = {c: [] for c in range(3)}
    for scores, label in zip(slow_logits(z, exponent), labels.tolist(), strict=True):
        hits[label].append(scores.index(max(scores)) == label)
    return sum(sum(of_class) / len(of_class) for of_class in hits.values()) / 3


def test_training_is_cross_entropy_without_a_bias():
    plain = build(CrossEntropyModule, CrossEntropy(), classifier_bias=False)
    module = build(TauNormModule, CrossEntropy())
    module.load_state_dict(plain.state_dict(), strict=False)
    module.chosen.fill_(1.0)
    batch = {"features": torch.randn(6, 8), "labels": torch.arange(6) % 3, "num_views": 1}
    assert torch.equal(module.training_losses(batch)["loss"], plain.training_losses(batch)["loss"])
    module.on_fit_start()
    torch.testing.assert_close(module.eval()(batch)["logits"], plain.eval()(batch)["logits"])


@pytest.mark.parametrize("exponent", [0.0, 0.7, 1.0])
def test_logits_are_divided_by_a_power_of_the_length(exponent):
    module, (z, _) = with_weights(exponent=exponent), rows()
    assert module.solve({"train": rows()}) == {"solver/exponent": exponent}
    logits = module({"features": z})["logits"]
    torch.testing.assert_close(logits, torch.tensor(slow_logits(z, exponent)))
    torch.testing.assert_close(z @ module.prediction_head()["weight"].T, logits)
    restored = with_weights()
    restored.load_state_dict(module.state_dict())
    assert torch.equal(restored({"features": z})["logits"], logits)


def test_the_exponent_is_that_of_the_best_mean_recall_of_validation_rows():
    z, _ = rows()
    labels = torch.tensor(slow_logits(z, 0.8)).argmax(1)
    module = with_weights()
    chosen = module.solve({"train": rows(1), "val": (z, labels)})["solver/exponent"]
    recalls = {exponent: slow_recall(z, labels, exponent) for exponent in EXPONENTS}
    assert recalls[chosen] == max(recalls.values()) == 1 > recalls[0.0]
    assert chosen == min(exponent for exponent in EXPONENTS if recalls[exponent] == 1)
    assert module.solve({"train": rows(1), "val": (z, labels)})["solver/exponent"] == chosen  # twice is once


def test_a_frozen_encoder_has_its_classifier_solved_first():
    module, (z, _) = with_weights(exponent=0.0), rows(number=200)
    module.encoder.frozen = True
    labels = (z[:, 0] > 0).long()
    figures = module.solve({"train": (z, labels), "val": (z, labels)})
    assert figures["solver/converged"] and figures["solver/exponent"] == 0
    assert (module({"features": z})["logits"].argmax(1) == labels).double().mean() > 0.95
