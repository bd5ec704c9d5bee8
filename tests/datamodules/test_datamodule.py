"""Corpus to batches: tokens, views, splits."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
import torch

from datamodules.imbalance import Exponential, Listed
from datamodules.label_budget import LabelBudget
from datamodules.samplers import LengthGrouped, Shuffle
from datamodules.texts.datamodule import predict_loader
from datamodules.texts.tokens import CHUNK
from storage.errors import InputError
from tests.datamodules.fake_corpus import CLEAN, PUBLISHED, FakeCorpus, Longer, Reverse


def expected_ids(tokenizer, text, max_length=16):
    return tokenizer(text, truncation=True, max_length=max_length)["input_ids"]


def texts_of(data, split, table):
    return data.corpus.table(table).column("text").take(pa.array(data.indices[split])).to_pylist()


def test_batches_hold_the_tokens_of_their_rows(make, tokenizer):
    data = make()
    for split, table, loader in (("train", "train", data.train_dataloader()), ("val", "train", data.val_dataloader())):
        texts = texts_of(data, split, table)
        seen = []
        for batch in loader:
            for row, position in enumerate(batch["indices"].tolist()):
                ids = batch["input_ids"][row][batch["attention_mask"][row].bool()].tolist()
                assert ids == expected_ids(tokenizer, texts[position])
                assert batch["labels"][row] == data.labels[split][position]
            assert batch["input_ids"].dtype == batch["labels"].dtype == torch.int64
            assert batch["attention_mask"].any(0).all()  # no column of padding only
            assert (batch["input_ids"][batch["attention_mask"] == 0] == tokenizer.pad_token_id).all()
            seen += batch["indices"].tolist()
        assert sorted(seen) == list(range(len(texts)))


def test_views_are_stacked_view_by_view(make, tokenizer):
    data = make(augment=Reverse(), num_views=3)
    texts = texts_of(data, "train", "train")
    batch = next(iter(data.train_dataloader()))
    size = len(batch["labels"])
    assert batch["input_ids"].shape[0] == 3 * size and batch["num_views"] == 3
    rows = [ids[mask.bool()].tolist() for ids, mask in zip(batch["input_ids"], batch["attention_mask"], strict=True)]
    for i, position in enumerate(batch["indices"].tolist()):
        assert rows[i] == expected_ids(tokenizer, texts[position])
        body = " ".join(reversed(texts[position].split()))
        assert rows[size + i][2:] == expected_ids(tokenizer, f"w0 {body}")[2:]
        assert rows[size + i][2:] == rows[2 * size + i][2:] and rows[size + i][1] != rows[2 * size + i][1]
    assert data.augment_report == {"name": "reverse", "share_changed": 1.0, "views": 3}
    assert next(iter(data.val_dataloader()))["num_views"] == 1


def test_without_augmentation_two_views_are_the_same_text(make):
    data = make(num_views=2)
    batch = next(iter(data.train_dataloader()))
    first, second = batch["input_ids"].chunk(2)
    assert torch.equal(first, second) and len(first) == len(batch["labels"])
    assert data.augment_report == {"name": "none", "share_changed": 0.0, "views": 2}


def test_clean_protocol_splits_train_and_leaves_test(make):
    data = make()
    train, val = data.indices["train"], data.indices["val"]
    assert len(np.intersect1d(train, val)) == 0
    assert sorted([*train, *val]) == list(range(100))
    assert data.class_counts.tolist() == [54, 27, 9] and data.class_counts.dtype == torch.int64
    assert len(data.indices["test"]) == 12


def test_a_shipped_validation_split_is_used(make):
    data = make(FakeCorpus(val_rows=7))
    assert len(data.indices["train"]) == 100 and len(data.indices["val"]) == 7
    assert sum(len(batch["labels"]) for batch in data.val_dataloader()) == 7


def test_rows_that_repeat_a_text_of_their_split_are_told(make):
    corpus = FakeCorpus(val_rows=5)
    corpus.tables["val"] = corpus.tables["val"].set_column(0, "text", [["w1", "w2", "W1 ", "w3", "w1"]])
    assert make(corpus=corpus).copies("val") == [(2, 0), (4, 0)]


def test_published_protocol_selects_on_test(make, tokenizer):
    data = make(protocol=PUBLISHED)
    assert len(data.indices["train"]) == 100
    assert np.array_equal(data.indices["val"], data.indices["test"])
    texts = data.corpus.table("test").column("text").to_pylist()
    batch = next(iter(data.val_dataloader()))
    ids = batch["input_ids"][0][batch["attention_mask"][0].bool()].tolist()
    assert ids == expected_ids(tokenizer, texts[batch["indices"][0]])


def test_the_folds_hold_out_every_row_once(make):
    protocol = {"name": "kfold", "val_fraction": 0.2, "monitor": "val/loss", "folds": 3}
    runs = [make(protocol=protocol | {"fold": fold}).indices for fold in range(3)]
    for rows in runs:
        assert sorted(np.concatenate(list(rows.values()))) == sorted(np.concatenate(list(runs[0].values())))
        assert not set(rows["test"]) & {*rows["train"], *rows["val"]} and len(rows["val"])
    held_out = np.concatenate([rows["test"] for rows in runs])
    assert len(held_out) == len(set(held_out)) == sum(map(len, runs[0].values()))
    assert make(protocol=protocol | {"fold": None}).indices.keys() >= {"train", "val"}
    protocol |= {"val_fraction": 0.0, "monitor": None}
    alone = make(protocol=protocol).indices  # nothing validates
    assert alone.keys() == {"train", "test"} and np.array_equal(alone["test"], runs[0]["test"])
    assert alone["train"].tolist() == sorted([*runs[0]["train"], *runs[0]["val"]])
    assert make(protocol=protocol | {"fold": None}).indices["train"].tolist() == sorted(held_out)
    few = make(protocol=protocol, budget=LabelBudget(labels=20)).indices  # a budget is of the rows that may train
    assert np.array_equal(few["test"], alone["test"]) and len(few["train"]) == 20
    assert sorted([*few["train"], *few["unlabelled"]]) == alone["train"].tolist()
    held = int(alone["test"][0])
    with pytest.raises(InputError, match=f"imbalance.rows: found {held}, allowed: .* that no fold or validation holds"):
        make(protocol=protocol, imbalance=Listed([held]))


def test_answers_that_are_none_of_the_labels_kind_are_one_line(make):
    with pytest.raises(InputError, match="found a list of numbers a row, allowed here: a number a row"):
        make(imbalance=Listed([0, 1, 2], [[0], [1], [2]]))


def test_transductive_protocol_serves_all_rows_without_labels(make):
    data = make(
        FakeCorpus(sizes=(60, 30)),
        protocol={"name": "transductive", "val_fraction": 0.0, "monitor": "train/loss"},
        sampler=Shuffle(16, 11),
        num_views=2,
        augment=Reverse(),
        imbalance=None,
    )
    assert data.indices.keys() == {"train", "val"}
    train = list(data.train_dataloader())
    assert sorted(np.concatenate([batch["indices"] for batch in train])) == list(range(90))
    assert all((batch["labels"] == -1).all() for batch in [*train, *data.val_dataloader()])
    orders = [[batch["indices"].tolist() for batch in data.ordered_loader(number)] for number in (0, 0, 1)]
    assert orders[0] == orders[1] != orders[2]
    assert orders[0] == [batch["indices"].tolist() for batch in data.val_dataloader()]
    assert sorted(sum(orders[2], [])) == list(range(90)) and max(map(len, orders[2])) == 11
    first = next(iter(data.val_dataloader()))
    assert first["num_views"] == 1 and len(first["input_ids"]) == 11


def test_validation_comes_from_the_thinned_rows_unless_said(make):
    whole = len(make(protocol={"name": "fixed", "val_fraction": 0.0, "monitor": None}).indices["train"])
    data = make(imbalance=Exponential(ir=3))
    before = make(imbalance=Exponential(ir=3), protocol={**CLEAN, "val_from": "unthinned"})
    granted = np.bincount(data.labels["train"]) + np.bincount(data.labels["val"])
    assert granted.max() == 3 * granted.min() and granted.sum() < whole
    assert before.class_counts.tolist() == [27, 15, 9] and len(before.indices["val"]) == 10
    assert len(data.indices["test"]) == len(before.indices["test"]) == 12
    assert np.array_equal(np.bincount(data.labels["train"]), data.class_counts)


def with_labels(make, **options):
    """Rows with a label and rows without one, each a set, of a thinned train table and a budget of labels."""
    data = make(imbalance=Exponential(ir=3), singleton_classes="keep_in_train", **options)
    return set(data.indices["train"]) | set(data.indices["val"]), set(data.indices.get("unlabelled", ()))


def test_of_thinned_rows_a_smaller_budget_is_within_a_larger(make):
    thinned, _ = with_labels(make)
    for key, sizes in {"labels": (20, 30, 40), "labels_per_class": (5, 9, 20)}.items():
        parts = [with_labels(make, budget=LabelBudget(**{key: size})) for size in sizes]
        assert parts[0][0] < parts[1][0] < parts[2][0] < thinned
        assert all(kept | rest <= thinned and not kept & rest for kept, rest in parts)
        assert key != "labels" or [len(kept) for kept, _ in parts] == list(sizes)


@pytest.mark.parametrize("protocol", [{**CLEAN, "val_from": "unthinned"}, {**CLEAN, "name": "kfold"}])
def test_where_rows_are_held_out_before_the_thinning_labels_are_drawn_before_it(make, protocol):
    options = {"protocol": protocol, "budget": LabelBudget(labels=60), "singleton_classes": "keep_in_train"}
    whole, thinned = make(**options), make(imbalance=Exponential(ir=3), **options)
    assert np.array_equal(whole.indices["unlabelled"], thinned.indices["unlabelled"])
    assert set(thinned.indices["train"]) < set(whole.indices["train"]) | set(whole.indices["val"])


@pytest.mark.parametrize("protocol", [CLEAN, {**CLEAN, "name": "kfold"}])
def test_without_test_only_the_test_rows_are_missing(make, protocol):
    whole, without = make(protocol=protocol), make(protocol={**protocol, "read_test": False})
    assert whole.indices.keys() - without.indices.keys() == {"test"}
    assert without.indices.keys() == without._views.keys(), "test rows are not even tokenised"
    assert all(np.array_equal(rows, whole.indices[split]) for split, rows in without.indices.items())


def test_batches_by_the_text_alone_are_the_same_for_any_number_of_views(make):
    def batches(views, length_of):
        sampler = LengthGrouped(batch_size=8, eval_batch_size=5, length_of=length_of)
        data = make(num_views=views, augment=Longer(), sampler=sampler)
        return [batch["indices"].tolist() for batch in data.train_dataloader()]

    assert batches(1, "text") == batches(2, "text") == batches(1, "all_views") != batches(2, "all_views")


def test_seed_decides_split_thinning_and_order(make):
    def run(seed):
        data = make(seed=seed, imbalance=Exponential(ir=3))
        return data.indices["train"].tolist(), [batch["indices"].tolist() for batch in data.train_dataloader()]

    assert run(1) == run(1)
    assert run(1)[0] != run(2)[0] and run(1)[1] != run(2)[1]


@pytest.mark.slow
def test_two_processes_give_the_same_batches(make, tmp_path):
    code = """
import hashlib, sys
from pathlib import Path
from tests.datamodules.fake_corpus import CLEAN, FakeCorpus, Reverse, wordpiece
from datamodules.texts.datamodule import TextDataModule
from datamodules.imbalance import Exponential
from datamodules.samplers import LengthGrouped
folder = Path(sys.argv[1])
data = TextDataModule(FakeCorpus(), wordpiece(folder / sys.argv[2]), Reverse(), Exponential(2), LengthGrouped(8),
                      CLEAN, 2, 3, max_length=16, cache_dir=folder / "shared")
data.prepare_data(); data.setup()
digest = hashlib.sha256()
loader = data.train_dataloader()
for epoch in range(2):
    loader.sampler.set_epoch(epoch)
    for batch in loader:
        digest.update(batch["input_ids"].numpy().tobytes() + batch["indices"].numpy().tobytes())
print(digest.hexdigest())
"""
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2]), "OMP_NUM_THREADS": "1"}
    # Both start at once on an empty cache.
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path), name],
            stdout=subprocess.PIPE,
            text=True,
            env=environment | {"PYTHONHASHSEED": str(i)},
        )
        for i, name in enumerate("ab")
    ]
    digests = [process.communicate()[0].strip() for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert len(digests[0]) == 64 and digests[0] == digests[1]


def test_features_replace_tokens(make):
    data = make(num_views=2)
    rng = np.random.default_rng(0)
    features = {"train": rng.normal(size=(2, 90, 4)), "val": rng.normal(size=(1, 10, 4))}
    data.use_features(features)
    batch = next(iter(data.train_dataloader()))
    size, positions = len(batch["labels"]), batch["indices"].numpy()
    assert set(batch) == {"features", "labels", "indices", "num_views"} and batch["features"].shape == (2 * size, 4)
    for view in (0, 1):
        part = batch["features"][view * size : (view + 1) * size].numpy()
        assert np.array_equal(part, features["train"][view, positions])
    data.use_features({"train": features["train"][:1], "val": features["val"]})
    first, second = next(iter(data.train_dataloader()))["features"].chunk(2)
    assert torch.equal(first, second)
    with pytest.raises(InputError, match=r"train features: found shape \(3, 90, 4\)"):
        data.use_features({"train": np.zeros((3, 90, 4))})


def test_feature_loader_covers_all_rows_and_views(make):
    data = make(augment=Reverse(), num_views=2)
    batches = list(data.feature_loader("train"))
    assert sorted(torch.cat([batch["indices"] for batch in batches]).tolist()) == list(range(90))
    assert all(batch["input_ids"].shape[0] == 2 * len(batch["labels"]) for batch in batches)


def test_new_texts_come_back_in_order_through_indices(tokenizer):
    texts = ["w1 w2 w3", "w4", "w5 w6", "", "never seen"] * 3
    actual = {}
    for batch in predict_loader(texts, tokenizer, 16, Shuffle(2, 4)):
        assert (batch["labels"] == -1).all() and batch["num_views"] == 1
        for row, position in enumerate(batch["indices"].tolist()):
            actual[position] = batch["input_ids"][row][batch["attention_mask"][row].bool()].tolist()
    assert [actual[i] for i in range(len(texts))] == [expected_ids(tokenizer, text) for text in texts]
    assert list(predict_loader([], tokenizer, 16, Shuffle())) == []


@pytest.mark.slow
def test_worker_processes_give_the_same_batches(make):
    plain, workers = make(), make(num_workers=2)
    pairs = zip(plain.train_dataloader(), workers.train_dataloader(), strict=True)
    assert all(torch.equal(a["input_ids"], b["input_ids"]) for a, b in pairs)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"corpus": FakeCorpus((20,))}, "one class only"),
        ({"corpus": FakeCorpus((9, 1, 1))}, r"'class 1' has one train row \(2 such classes\).*keep_in_train"),
        ({"max_length": 2}, r"dataset.max_length: found 2, allowed: >= 3"),
        ({"num_views": 0}, "num_views: found 0, allowed: >= 1"),
        ({"imbalance": Exponential(ir=100)}, r"imbalance.ir: found 100, allowed: 1 to 60"),
        ({"protocol": CLEAN | {"val_fraction": 0.0}}, "protocol.val_fraction: found 0.0"),
        ({"protocol": CLEAN | {"name": "sloppy"}}, "protocol.name: found 'sloppy', allowed: clean, published"),
    ],
)
def test_bad_input_is_named(make, options, message):
    with pytest.raises(InputError, match=message) as caught:
        make(**options)
    assert "\n" not in str(caught.value)


def test_a_class_of_one_row_may_stay_in_train(make):
    data = make(FakeCorpus((9, 1, 1)), singleton_classes="keep_in_train")
    assert data.class_counts.tolist() == [8, 1, 1]
    assert data.labels["val"].tolist() == [0]


def test_lightning_sets_the_epoch_and_keeps_the_order(make):
    from lightning import LightningModule, Trainer

    class Recorder(LightningModule):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(()))
            self.seen, self.predicted = [], []

        def training_step(self, batch, _):
            self.seen.append((self.current_epoch, batch["indices"].tolist()))
            return self.weight * 0

        def validation_step(self, batch, _):
            assert batch["num_views"] == 1

        def predict_step(self, batch, _):
            self.predicted += batch["indices"].tolist()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.1)

    data, model = make(), Recorder()
    trainer = Trainer(
        max_epochs=2,
        accelerator="cpu",
        use_distributed_sampler=False,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(model, datamodule=data)
    order = data.sampler.train(data._data("train").lengths, data.labels["train"], data.seed)
    for epoch in (0, 1):
        order.set_epoch(epoch)
        assert [rows for at, rows in model.seen if at == epoch] == [batch.tolist() for batch in order]
    trainer.predict(model, predict_loader(["w1", "w2 w3", "w4"], data.tokenizer, data.max_length, data.sampler))
    assert sorted(model.predicted) == [0, 1, 2]


@pytest.mark.slow
def test_processes_of_a_trainer_share_the_batches(make):
    def batches(rank, world_size):
        data = make()
        data.trainer = SimpleNamespace(global_rank=rank, world_size=world_size)
        loaders = (data.train_dataloader(), data.val_dataloader(), data.test_dataloader())
        return [[batch["indices"].tolist() for batch in loader] for loader in loaders]

    single, first, second = batches(0, 1), batches(0, 2), batches(1, 2)
    for whole, left, right in zip(single[0], first[0], second[0], strict=True):
        assert sorted(left + right) == sorted(whole)
    for split in (1, 2):
        assert sorted(sum(first[split] + second[split], [])) == sorted(sum(single[split], []))


@pytest.mark.slow
def test_many_rows_pass_in_bounded_pieces(make):
    class Watching(Reverse):
        sizes: list[int] = []

        def augment(self, texts, seed, aug_column=None):
            self.sizes.append(len(texts))
            return super().augment(texts, seed, aug_column)

    data = make(FakeCorpus((9000, 1000)), augment=Watching(), num_views=2)
    assert sum(Watching.sizes) == 9000 and max(Watching.sizes) <= CHUNK
    assert len(data._views["train"][0]) == 10_000 and len(data._views["train"][1]) == 9000
