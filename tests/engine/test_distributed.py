"""The loss curve of two processes is that of one; gradient accumulation."""

from pathlib import Path
from unittest import mock

import pytest
import torch
from lightning.pytorch import Callback
from omegaconf import OmegaConf
from torch import nn

from engine.plan import Plan, instantiate_partial
from engine.processes import run_processes
from engine.world import World
from tests.engine.plans import composed

STEPS = 12
TWO = World(nodes=1, devices=2)
EQUAL = ["method.dropout=0", "sampler.batch_size=16", "sampler=shuffle", "trainer.max_epochs=3", "optimizer.lr=1e-3"]
QUEUE = ["method.queue_size=40", "method.momentum=0.9"]
ALIKE = "ce focal dice class_balanced logit_adjusted ldam_drw simcse scl_ce spcl dualcl hybrid_sc scl_hnm acl bcl"
ALIKE += " lade proco tde bbn two_heads_words mislas disalign crt tau_norm"
CURVES = {method: [f"method={method}"] for method in ALIKE.split()} | {
    "sharprecl": ["method=sharprecl"],
    "tsc": ["method=tsc", "loss.num_positives=3", *QUEUE],
    "paco": ["method=paco", *QUEUE],
    "gml": ["method=gml", *QUEUE],
    "kcl": ["method=kcl", "loss.num_positives=3", *QUEUE],
    "dscl": ["method=dscl", *QUEUE],
    "gpaco": ["method=gpaco", "method.queue_size=40"],
    "sharprecl, cached": ["method=sharprecl", "trainer.gradient_cache_chunk=5"],
    "dualcl, cached": ["method=dualcl", "trainer.gradient_cache_chunk=5"],
    "paco, accumulated": ["method=paco", "trainer.accumulate_grad_batches=2", *QUEUE],
}


class Losses(Callback):
    """The loss of every batch."""

    def __init__(self):
        self.values, self.weights, self.seeds = [], [], []

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        halves = 2 if pl_module.rows_beside else 1
        size = len(batch["labels"]) // halves
        assert (trainer.world_size, size) in [(1, 32), (1, 16), (1, 13), (2, 8), (2, 7), (2, 6)]
        self.values.append(outputs["loss"].item() / pl_module.accumulation_weight)
        self.weights.append(pl_module.accumulation_weight)
        self.seeds.append(torch.initial_seed())


def curve(plain: dict, folder: str) -> tuple[list[float], float]:
    """Losses of all batches without dropout, and the norm of all weights at the end."""
    losses, module = trained(plain, folder)
    return losses.values, sum(p.detach().double().square().sum() for p in module.parameters()).sqrt().item()


def trained(plain: dict, folder: str) -> tuple[Losses, nn.Module]:
    plan = Plan.make(OmegaConf.create(plain))
    datamodule = plan.datamodule(plan.corpus())
    torch.manual_seed(0)
    module = plan.module(datamodule)
    for part in module.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.0
    losses = Losses()
    build_trainer = instantiate_partial(plan.config.trainer)
    trainer = build_trainer(run_folder=Path(folder), callbacks=[losses], logger=False, plugins=[])
    trainer.limit_val_batches = 0
    trainer.enable_checkpointing = False
    trainer.fit(module, datamodule)
    return losses, module


def curves(plains: dict[str, dict], folder: str) -> dict[str, tuple[list[float], float]]:
    return {name: curve(plain, folder) for name, plain in plains.items()}


@pytest.fixture
def plain(files, store, small):
    """The config of a line, as plain values."""
    line = [*files, *store, *small, "callbacks=none", *EQUAL]
    return lambda *arguments: OmegaConf.to_container(composed(*line, *arguments), resolve=True)


@pytest.mark.slow
def test_two_processes_give_the_loss_curve_of_one(plain, tmp_path):
    plains = {name: plain(*line) for name, line in CURVES.items()}
    expected = curves(plains, str(tmp_path))
    two = {name: plain(*line, "trainer=ddp_cpu", *EQUAL[3:4], "trainer.precision=32") for name, line in CURVES.items()}
    actual = run_processes(curves, (two, str(tmp_path)), TWO, "curves")
    for name, (losses, norm) in expected.items():
        assert len(losses) == STEPS
        assert len(set(losses)) == STEPS and max(losses) > 1.05 * min(losses)
        assert actual[name][0] == pytest.approx(losses, rel=2e-5), name
        assert actual[name][1] == pytest.approx(norm, rel=1e-6), name


def test_accumulated_batches_make_the_step_of_their_union(plain, tmp_path):
    one_step = ["method=ce", "trainer.max_steps=1", "scheduler=constant"]
    lines = [["sampler.batch_size=32"], ["trainer.accumulate_grad_batches=2"], []]
    whole, halves, half = (trained(plain(*one_step, *line), str(tmp_path))[1].state_dict() for line in lines)
    for name, weights in whole.items():
        torch.testing.assert_close(halves[name], weights, atol=1e-5, rtol=1e-4)
    assert max((half[name] - whole[name]).abs().max() for name in whole if "classifier" in name) > 1e-3


@pytest.mark.slow
def test_steps_and_random_numbers_under_accumulation(plain, tmp_path):
    line = plain("method=paco", "trainer.accumulate_grad_batches=3", "method.momentum=0.9")
    losses, module = trained(line, str(tmp_path))
    assert losses.weights == 3 * [1.0, 1.0, 1.0, 3.0]  # an epoch's last step has one batch of three
    assert module.total_steps == module.global_step == 6
    assert len(set(losses.seeds)) == STEPS


@pytest.mark.slow
def test_every_process_draws_a_dropout_of_its_own(plain, tmp_path):
    _, module = trained(plain("method=ce", "trainer.max_steps=1"), str(tmp_path))
    seeds = []
    for rank in range(3):
        with mock.patch.object(type(module), "global_rank", rank):
            module.on_train_batch_start({}, 0)
            generator = module.step_generator()
        seeds.append((torch.initial_seed(), generator.initial_seed()))
    dropout, of_losses = zip(*seeds, strict=True)
    assert len(set(dropout)) == 3 and len(set(of_losses)) == 1
