"""ACL as a module: which views it uses, what it adds up, its centres, and what the callback counts of it."""

from functools import partial
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from callbacks.gradient_conflict import GradientConflict, pair_counts
from lightning_modules.methods.supervised.acl import ACLModule
from losses import ACLLoss, BalancedSoftmaxLoss
from storage.run_store import RunFolder

COUNTS = torch.tensor([200, 50, 5])


class Embedding(nn.Module):
    """An encoder that knows the texts by number and counts what it is given."""

    hidden_size, frozen = 6, False

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(40, self.hidden_size)
        self.rows = 0

    def forward(self, input_ids, attention_mask):
        self.rows = len(input_ids)
        return self.table(input_ids[:, 0])


@pytest.fixture
def build():
    def make(loss=None, **options):
        torch.manual_seed(0)
        optimizer, scheduler = partial(torch.optim.AdamW, lr=0.01), None
        options = {"num_views": 4, "dropout": 0.0, "projection_size": 4, **options}
        module = ACLModule(Embedding(), loss or ACLLoss(), COUNTS, optimizer, scheduler, "acl", **options)
        module.log = lambda *args, **kwargs: None
        return module

    return make


@pytest.fixture
def batch():
    labels = torch.tensor([0, 1, 2, 0, 1, 2, 2])
    return {
        "input_ids": torch.arange(28)[:, None],
        "attention_mask": torch.ones(28, 1, dtype=torch.long),
        "labels": labels,
        "indices": torch.arange(7),
        "num_views": 4,
    }


def used(labels):
    """Row numbers that enter the contrastive term: 2, 3 and 4 views of the classes of 200, 50 and 5 rows."""
    return [v * 7 + i for v in range(4) for i, y in enumerate(labels.tolist()) if v < (2, 3, 4)[y]]


@pytest.mark.parametrize("views", ["all", "contrastive"])
def test_loss_is_eq_10_over_the_views_of_each_term(build, batch, views):
    module = build(alpha=0.3, classification_views=views)
    module.centres, module.is_seen = nn.functional.normalize(torch.randn(3, 4)), torch.tensor([True, True, False])
    centres, seen = module.centres, module.is_seen
    losses = module.training_losses(batch)
    keep = torch.tensor(used(batch["labels"]))
    assert module.encoder.rows == (28 if views == "all" else len(keep)) and len(keep) == 2 * 2 + 2 * 3 + 3 * 4
    labels, embeddings = batch["labels"].repeat(4), module.encoder.table(torch.arange(28))
    chosen = torch.arange(28) if views == "all" else keep
    soft = BalancedSoftmaxLoss()(module.classifier(embeddings[chosen]), labels[chosen], COUNTS)
    acl = ACLLoss()(module.project(embeddings[keep]), labels[keep], centres, seen, COUNTS)
    assert losses["classification"].item() == pytest.approx(soft.item(), abs=1e-6)
    assert losses["contrastive"].item() == pytest.approx(acl.item(), abs=1e-6)
    assert losses["loss"].item() == pytest.approx(0.3 * acl.item() + soft.item(), abs=1e-6)


def test_both_choices_of_views_share_the_contrastive_term(build, batch):
    terms = [build(classification_views=v).training_losses(batch)["contrastive"] for v in ("all", "contrastive")]
    assert terms[0].item() == pytest.approx(terms[1].item(), abs=1e-6) and terms[0] > 0


def test_features_take_the_place_of_tokens(build, batch):
    module = build(classification_views="contrastive")
    features = {k: v for k, v in batch.items() if "_" not in k or k == "num_views"}
    features["features"] = module.encoder.table(torch.arange(28)).detach()
    expected = build(classification_views="contrastive").training_losses(batch)["loss"]
    assert module.training_losses(features)["loss"].item() == pytest.approx(expected.item(), abs=1e-6)


def test_centres_take_the_batch_in_and_are_saved(build, batch):
    module = build()
    assert not module.is_seen.any() and not module.centres.any()
    module.training_losses(batch)
    assert module.is_seen.all()
    assert torch.allclose(module.centres.norm(dim=1), torch.ones(3)) and not module.centres.requires_grad
    other = build()
    other.load_state_dict(module.state_dict())
    assert torch.equal(other.centres, module.centres) and other.is_seen.all()


def test_without_weight_there_is_no_contrastive_term(build, batch):
    module = build(alpha=0.0)
    assert set(module.training_step(batch, 0)) == {"loss"} and not module.is_seen.any()


def test_more_views_than_there_are_is_refused(build):
    with pytest.raises(ValueError, match="method.num_views: found 3, allowed: >= 4"):
        build(num_views=3)


def test_pair_gradients_are_those_before_the_centres_moved(build, batch):
    module = build()
    first = module.training_step(batch, 0)
    module.training_step(batch, 1)
    gradients, labels = first["pair_gradients"]()
    keep = torch.tensor(used(batch["labels"]))
    z = module.project(module.encoder.table(keep)).detach()
    unseen = torch.zeros(3, dtype=torch.bool)
    expected = ACLLoss().pair_gradients(z, labels, torch.zeros(3, 4), unseen, COUNTS)
    assert torch.equal(labels, batch["labels"].repeat(4)[keep]) and torch.allclose(gradients, expected, atol=1e-7)


def test_pair_counts_by_hand():
    gradients = torch.tensor([[9.0, 1, -1, 0], [-1, 9, 1, 0], [1, 1, 9, 9], [1, 1, 9, 9]])
    assert pair_counts(gradients, torch.tensor([0, 0, 0, 2])).tolist() == [[6, 0, 0], [4, 0, 0]]


@pytest.fixture
def count(build, batch, tmp_path):
    """count(loss) -> the lines that the callback writes over two epochs of two steps."""

    def write(loss, **options):
        callback = GradientConflict(RunFolder(tmp_path / "acl-toy-0"), None, **options)
        module = build(loss, projection_size=6)
        module.project = nn.Identity()
        with torch.no_grad():  # classes far apart, texts of a class at different distances: easy positives
            table = 0.5 * torch.randn(40, 6)
            table[torch.arange(28), batch["labels"].repeat(4)] += 2
            module.encoder.table.weight[:] = nn.functional.normalize(table, dim=1)
        for epoch in range(2):
            trainer = SimpleNamespace(current_epoch=epoch, is_global_zero=True)
            callback.on_train_start(trainer, module)  # as in a resumed run
            callback.on_train_epoch_start(trainer, module)
            for step in range(2):
                callback.on_train_batch_end(trainer, module, module.training_step(batch, step), batch, step)
            callback.on_train_epoch_end(trainer, module)
        return callback.run.read_csv("gradient_conflict.csv")

    return write


def test_supervised_contrast_conflicts_and_acl_does_not(count):
    lines = {name: count(loss) for name, loss in LOSSES.items()}
    for actual in lines.values():
        assert [(line["epoch"], line["class"]) for line in actual] == [(e, c) for e in "01" for c in "012"]
        # 2, 2 and 3 texts with 2, 3 and 4 views, two steps an epoch
        assert [int(line["pairs"]) for line in actual[:3]] == [2 * 4 * 3, 2 * 6 * 5, 2 * 12 * 11]
    assert all(int(line["conflicts"]) == 0 for line in lines["acl"])
    assert sum(int(line["conflicts"]) for line in lines["scl"]) > 0
    for line in lines["scl"]:
        assert float(line["ratio"]) == pytest.approx(int(line["conflicts"]) / int(line["pairs"]), abs=1e-6)


LOSSES = {"acl": ACLLoss(0.1), "scl": ACLLoss(0.1, "none", "all_positives", with_centres=False)}


def test_interval_skips_steps(count):
    assert int(count(LOSSES["scl"], interval=2)[0]["pairs"]) == 4 * 3
