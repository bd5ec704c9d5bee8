"""The share of the matrix peak in `benchmarks.fine_tuning`: what is counted, and that each contestant has its share."""

import multiprocessing
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from benchmarks import _peak, fine_tuning
from benchmarks._peak import Work, kind_of, multiply_adds, time_by_kind
from engine.plan import Plan
from tests.engine.plans import composed


def test_a_linear_layer_multiplies_three_times_forward_and_backward():
    layer, inputs = nn.Linear(5, 7), torch.randn(4, 3, 5, requires_grad=True)
    assert multiply_adds(lambda: layer(inputs)) == 4 * 3 * 5 * 7
    assert multiply_adds(lambda: layer(inputs).sum().backward()) == 3 * 4 * 3 * 5 * 7


@pytest.mark.parametrize("dropout", [0.0, 0.1])  # two implementations on a CPU
def test_products_of_attention_count(dropout):
    batch, heads, length, width = 2, 3, 7, 8
    queries = torch.randn(batch, heads, length, width)

    def attend():
        nn.functional.scaled_dot_product_attention(queries, queries, queries, dropout_p=dropout)

    assert multiply_adds(attend) == 2 * batch * heads * length**2 * width


def test_the_share_is_of_all_batches_of_an_epoch(monkeypatch):
    monkeypatch.setattr(_peak, "peak_rate", lambda sizes, dtype: 1000.0)
    layer = nn.Linear(5, 7)
    work = Work(layer, layer, torch.float32)
    for rows in (4, 4, 2):
        layer(torch.randn(rows, 5))
    layer.eval()(torch.randn(9, 5))  # no training
    work.end_epoch(seconds=2.0)
    layer.train()(torch.randn(1, 5))
    work.end_epoch(seconds=1.0)
    assert work.shares(layer) == pytest.approx([10 * 5 * 7 / 2000, 5 * 7 / 1000])


@pytest.mark.slow
def test_each_contestant_has_its_share(small, files, store, monkeypatch):
    monkeypatch.setattr(_peak, "SQUARE", 64)
    plan = Plan.make(composed("method=ce", *small, *files, *store))
    datamodule, outcomes = plan.datamodule(plan.corpus()), {}
    for name in (fine_tuning.OURS, "Trainer, float32"):
        turns = fine_tuning.Turns([name], multiprocessing.get_context("spawn"))
        run = fine_tuning.ours if name == fine_tuning.OURS else fine_tuning.theirs
        shares, accuracy = run(*(() if name == fine_tuning.OURS else (name, False)), plan, datamodule, turns)
        assert len(shares) == len(turns.seconds) == plan.config.trainer.max_epochs
        assert all(share > 0 for share in shares)
        outcomes[name] = fine_tuning.Outcome(turns.seconds, shares, accuracy, len(datamodule.labels["train"]))
    header, _, *rows = fine_tuning.table(outcomes).splitlines()
    assert "share of matrix peak, %" in header
    assert [row.split("  ")[0] for row in rows] == list(outcomes)


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (["enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "aten::mul"], "data loading"),
        (["Optimizer.step#AdamW.step", "aten::_fused_adamw_"], "optimizer"),
        (["aten::scaled_dot_product_attention", "aten::matmul", "aten::bmm"], "attention"),
        (["aten::matmul", "aten::bmm"], "attention"),
        (["autograd::engine::evaluate_function: AddmmBackward0", "aten::mm"], "matrix products"),
        (["aten::linear", "aten::addmm", "aten::copy_"], "matrix products"),
        (["autograd::engine::evaluate_function: EmbeddingBackward0", "aten::fill_"], "embedding lookups"),
        (["aten::dropout", "aten::bernoulli_"], "normalisation and activations"),
        (["aten::copy_"], "other"),
    ],
)
def test_the_kind_of_an_operator_is_that_of_the_outermost_around_it(names, kind):
    assert kind_of(names) == kind


def test_time_by_kind_adds_up_to_the_whole():
    outer = SimpleNamespace(name="aten::linear", cpu_parent=None, self_cpu_time_total=1e6)
    inner = SimpleNamespace(name="aten::addmm", cpu_parent=outer, self_cpu_time_total=5e6)
    rows = {kind: (share, largest) for kind, share, largest in time_by_kind([outer, inner], seconds=8.0)}
    assert rows["matrix products"] == (0.75, "aten::addmm 62.5, aten::linear 12.5")
    assert rows["between operators"][0] == 0.25
    assert sum(share for share, _ in rows.values()) == 1
