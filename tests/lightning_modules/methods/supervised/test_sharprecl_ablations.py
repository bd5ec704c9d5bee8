"""SharpReCL's Table 4: each experiment removes what it names, and nothing else."""

from functools import partial
from types import SimpleNamespace
from unittest import mock

import pytest
import torch
from hydra.utils import instantiate
from omegaconf import OmegaConf
from torch import nn

import lightning_modules.methods.supervised.sharprecl as sharprecl
from engine.allowed_targets import CONF
from losses import LogitCompensatedCrossEntropy
from tests.engine.plans import composed, plain

COUNTS = torch.tensor([20, 6, 2])
ABLATIONS = {  # experiment: what differs from method=sharprecl
    "sharprecl_wo_sshm": {"method.n_pos": 0, "method.n_neg": 0},
    "sharprecl_wo_cl": {"method.mu": 0.0},
    "sharprecl_wo_cls": {"method.prototypes_from": "own_weights", "method.classifier_input": "detached_embeddings"},
    "sharprecl_wo_ss": {"method.samples": "hard"},
    "sharprecl_wo_hm": {"method.samples": "simple"},
    "sharprecl_wo_mi": {"method.prototypes_from": "own_weights"},
    "sharprecl_wo_delta_both": {"method.adjustment_strength": 0.0, "loss.class_weight": "none"},
    "sharprecl_wo_delta_cls": {"method.adjustment_strength": 0.0},
    "sharprecl_wo_delta_cl": {"loss.class_weight": "none"},
}


class Embedding(nn.Module):
    hidden_size, frozen = 6, False

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(16, self.hidden_size)

    def forward(self, input_ids, attention_mask):
        return self.table(input_ids[:, 0])


def test_every_row_of_the_table_is_there():
    assert ABLATIONS.keys() == {path.stem for path in (CONF / "experiment").glob("sharprecl_wo_*.yaml")}


def flat(node, prefix=""):
    for key, value in node.items():
        yield from flat(value, f"{prefix}{key}.") if isinstance(value, dict) else [(prefix + key, value)]


@pytest.mark.parametrize(("experiment", "changed"), ABLATIONS.items())
def test_only_what_is_named_changes(experiment, changed):
    before = dict(flat(plain("method=sharprecl")))
    after = dict(flat(plain(f"experiment={experiment}")))
    assert {key: value for key, value in after.items() if before.get(key, "absent") != value} == changed
    assert before.keys() <= after.keys()


@pytest.fixture
def step():
    """step(experiment) -> (module after one backward pass, losses, what draw_samples was asked for)."""

    def run(experiment=None):
        config = composed(*([f"experiment={experiment}"] if experiment else ["method=sharprecl"]))
        torch.manual_seed(0)
        make = instantiate(OmegaConf.merge(config.method, {"projection_size": 4, "dropout": 0.0}), _partial_=True)
        loss = instantiate(config.loss)
        module = make(Embedding(), loss, COUNTS, partial(torch.optim.AdamW), None)
        module._trainer = SimpleNamespace(global_step=3, estimated_stepping_batches=10, world_size=1)
        batch = {
            "input_ids": torch.arange(16)[:, None],
            "attention_mask": torch.ones(16, 1),
            "labels": torch.tensor([0, 0, 0, 0, 1, 1, 2, 2]),
            "num_views": 2,
        }
        with (
            mock.patch.object(type(module), "global_step", 3),
            mock.patch.object(type(module), "total_steps", 10),
            mock.patch.object(sharprecl, "draw_samples", wraps=sharprecl.draw_samples) as draw,
        ):
            losses = module.training_losses(batch)
        return module, losses, draw.call_args.kwargs if draw.called else None

    return run


def gradients(loss, module):
    """Names of the parameters that a loss moves."""
    named = dict(module.named_parameters())
    actual = torch.autograd.grad(loss, list(named.values()), retain_graph=True, allow_unused=True)
    return {name for name, grad in zip(named, actual, strict=True) if grad is not None and grad.any()}


def test_the_method_shares_the_classifier_and_draws_both_kinds(step):
    module, losses, asked = step()
    assert asked["hard_ratio"] == pytest.approx(0.5 + 0.5 * 0.3) and (asked["n_pos"], asked["n_neg"]) == (10, 500)
    assert "classifier.weight" in gradients(losses["contrastive"], module)
    assert "encoder.table.weight" in gradients(losses["classification"], module)
    assert not hasattr(module, "prototype_weights")


def test_without_rebalanced_sets(step):
    _, losses, asked = step("sharprecl_wo_sshm")
    assert (asked["n_pos"], asked["n_neg"]) == (0, 0) and losses["contrastive"] > 0


def test_without_contrast(step):
    _, losses, asked = step("sharprecl_wo_cl")
    assert set(losses) == {"loss"} and asked is None


def test_without_classification_the_encoder_learns_by_contrast_alone(step):
    module, losses, _ = step("sharprecl_wo_cls")
    assert gradients(losses["classification"], module) == {"classifier.weight", "classifier.bias"}
    moved = gradients(losses["contrastive"], module)
    assert {"encoder.table.weight", "prototype_weights"} <= moved and "classifier.weight" not in moved


@pytest.mark.parametrize(("experiment", "share"), [("sharprecl_wo_ss", 1.0), ("sharprecl_wo_hm", 0.0)])
def test_one_kind_of_samples(step, experiment, share):
    assert step(experiment)[2]["hard_ratio"] == share


def test_without_mutual_guidance_no_weight_of_a_head_is_shared(step):
    module, losses, _ = step("sharprecl_wo_mi")
    first, other = (gradients(losses[name], module) for name in ("classification", "contrastive"))
    assert first & other == {"encoder.table.weight"}
    assert torch.equal(module.prototype_weights, module.classifier.weight)  # at the start


@pytest.mark.parametrize("experiment", [name for name in ABLATIONS if "delta" in name])
def test_without_class_priors(step, experiment):
    module, losses, _ = step(experiment)
    _, whole, _ = step()
    embeddings, labels = module.encoder.table.weight, torch.tensor([0, 0, 0, 0, 1, 1, 2, 2] * 2)
    strength = 1.0 if experiment == "sharprecl_wo_delta_cl" else 0.0
    expected = LogitCompensatedCrossEntropy(strength)(module.classifier(embeddings), labels, COUNTS)
    assert losses["classification"].item() == pytest.approx(expected.item(), abs=1e-6)
    same = torch.isclose(losses["contrastive"], whole["contrastive"])
    assert bool(same) == (experiment == "sharprecl_wo_delta_cls")
