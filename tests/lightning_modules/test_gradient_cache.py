"""Gradient caching and accumulation: value and gradient of the whole batch."""

from functools import partial
from types import SimpleNamespace

import pytest
import torch
from torch.nn import functional
from transformers import BertConfig, BertModel

from lightning_modules.encoders.transformer import TextEncoder
from lightning_modules.methods.supervised.acl import ACLModule
from lightning_modules.methods.supervised.bcl import BCLModule
from lightning_modules.methods.supervised.ce import CrossEntropyModule
from lightning_modules.methods.supervised.paco import PaCoModule
from lightning_modules.methods.supervised.sharprecl import SharpReCLModule
from lightning_modules.methods.supervised.tsc import TSCModule
from lightning_modules.schedules import constant
from losses import (
    ACLLoss,
    BalancedContrastiveLoss,
    CrossEntropy,
    ParametricContrastiveLoss,
    SharpReCLLoss,
    TargetedContrastiveLoss,
    supervised_contrastive,
)

COUNTS = torch.tensor([40, 20, 5])
ROWS = 12
METHODS = {
    "ce": (CrossEntropyModule, CrossEntropy, {}),
    "sharprecl": (SharpReCLModule, SharpReCLLoss, {"K": 3, "n_neg": 20}),
    "acl": (ACLModule, ACLLoss, {"views_medium": 2, "views_few": 2}),
    "bcl": (BCLModule, BalancedContrastiveLoss, {}),
    "tsc": (TSCModule, TargetedContrastiveLoss, {"queue_size": 20}),
    "paco": (PaCoModule, ParametricContrastiveLoss, {"queue_size": 20}),
}


def build(method, dropout=0.0):
    torch.manual_seed(0)
    size = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    config = BertConfig(vocab_size=50, hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout, **size)
    encoder = TextEncoder(BertModel(config, add_pooling_layer=False), "mean", "full", 1).train()
    kind, loss, options = METHODS[method]
    optimizer = partial(torch.optim.SGD, lr=0.1)
    options = {"num_views": 2, "dropout": dropout, **options}
    module = kind(encoder, loss(), COUNTS, optimizer, constant, method, **options)
    module.trainer = SimpleNamespace(
        global_step=0, estimated_stepping_batches=10, optimizers=[], strategy=None, current_epoch=0, max_epochs=1
    )
    return module


def make_batch(rows=ROWS):
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(50, (2 * rows, 9), generator=generator)
    lengths = torch.randint(3, 10, (2 * rows, 1), generator=generator)
    mask = (torch.arange(9) < lengths).long()
    labels = torch.arange(rows) % 3
    return {"input_ids": ids, "attention_mask": mask, "labels": labels, "indices": torch.arange(rows), "num_views": 2}


def step(module, chunk):
    module.gradient_cache_chunk = chunk
    torch.manual_seed(3)
    loss = module.training_losses(make_batch())["loss"]
    loss.backward()
    return loss.item(), {name: p.grad.clone() for name, p in module.named_parameters() if p.grad is not None}


def assert_same(actual, expected, tolerance):
    assert actual[0] == pytest.approx(expected[0], rel=tolerance)
    assert actual[1].keys() == expected[1].keys() and len(actual[1]) > 20
    for name, grad in expected[1].items():
        torch.testing.assert_close(actual[1][name], grad, atol=tolerance, rtol=tolerance)
    largest = max(grad.abs().max() for name, grad in expected[1].items() if name.startswith("encoder."))
    assert largest > 100 * tolerance


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("chunk", [1, 5])
def test_value_and_gradient_are_those_of_the_whole_batch(method, chunk):
    assert_same(step(build(method), chunk), step(build(method), None), 1e-5)


def test_in_float64_they_are_equal_to_rounding():
    def result(chunk):
        module, batch = build("ce").double(), make_batch()
        module.gradient_cache_chunk = chunk
        model = module.encoder.model
        tokens = batch["input_ids"], batch["attention_mask"]
        states = module.encode(lambda *rows: model(*rows).last_hidden_state, *tokens)
        loss = supervised_contrastive(functional.normalize(states[:, 0], dim=1), batch["labels"].repeat(2), 0.3)
        loss.backward()
        return loss.item(), {name: p.grad for name, p in model.named_parameters()}

    (value, grads), (expected, expected_grads) = result(7), result(None)
    assert value == pytest.approx(expected, rel=1e-14)
    assert max(grad.abs().max() for grad in expected_grads.values()) > 1e-3
    for name, grad in expected_grads.items():
        torch.testing.assert_close(grads[name], grad, atol=1e-15, rtol=1e-11)


def kept_chunks(function, parameters, chunk, *tokens):
    """Chunks with the whole graph."""
    return torch.cat([function(*rows) for rows in zip(*(part.split(chunk) for part in tokens), strict=True)])


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_dropout_is_replayed(method, monkeypatch):
    actual = step(build(method, dropout=0.3), 5)
    # the same chunks, all kept in memory: what a wrong replay would differ from
    monkeypatch.setattr("lightning_modules.base.embed_in_chunks", kept_chunks)
    assert_same(actual, step(build(method, dropout=0.3), 5), 1e-6)
    assert actual[0] != pytest.approx(step(build(method), None)[0], rel=1e-6)


def test_the_encoder_sees_no_more_rows_than_a_chunk():
    module, seen = build("paco"), []
    module.encoder.register_forward_pre_hook(lambda _, args: seen.append(len(args[0])))
    module.key_modules["encoder"].register_forward_pre_hook(lambda _, args: seen.append(len(args[0])))
    step(module, 5)
    assert max(seen) == 5 and sum(seen) == 3 * ROWS  # queries twice, keys once
    seen.clear()
    module.eval()
    with torch.no_grad():
        module(make_batch())
    assert seen == [2 * ROWS]  # evaluation has a batch size of its own


def test_training_in_eval_mode_is_by_chunks_too():
    """As `train_mode=until_first_evaluation` does."""
    module, sizes = build("sharprecl").eval(), []
    module.encoder.register_forward_pre_hook(lambda _, args: sizes.append(len(args[0])))
    step(module, 5)
    assert max(sizes) == 5


def test_under_autocast_and_with_parameters_outside_of_it(monkeypatch):
    def result():
        module = build("bcl", dropout=0.2)
        module.encoder.model.embeddings.requires_grad_(False)
        with torch.autocast("cpu", torch.bfloat16):
            actual = step(module, 5)
            again = module.encoder(make_batch()["input_ids"], make_batch()["attention_mask"])
        assert again.requires_grad  # no cast weight without gradient was left behind
        return actual

    actual = result()
    monkeypatch.setattr("lightning_modules.base.embed_in_chunks", kept_chunks)
    assert_same(actual, result(), 1e-2)
    assert not any("embeddings" in name for name in actual[1])


def test_random_numbers_after_backward_are_those_before():
    module = build("ce", dropout=0.3)
    module.gradient_cache_chunk = 5
    loss = module.training_losses(make_batch())["loss"]
    before = torch.get_rng_state()
    loss.backward()
    assert torch.equal(torch.get_rng_state(), before)
