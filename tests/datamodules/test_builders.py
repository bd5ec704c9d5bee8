"""The built-in data sets give exactly the expected rows, and say so in their cards."""

import gzip
import hashlib
import inspect
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import yaml
from hydra.utils import instantiate

from datamodules.builders.base import Dataset
from datamodules.corpus import Corpus, prepare
from engine.allowed_targets import CONF

FOLDERS = {  # data set -> folder of its expected rows
    "ohsumed": "ohsumed_titles",
    "trec": "trec6",
    "r52": "r52",
    "dblp": "dblp",
    "cr": "cr",
    "biomedical": "biomedical",
    "agnews": "agnews",
    "reuters21578": "reuters21578_modapte",
    "goemotions": "goemotions",
}
USER_SETS = ("aapd", "rcv1", "mpqa_type", "mpqa_polarity", "mpqa_intensity", "amazon_reviews")  # see test_user_sets.py
SHORT_TEXTS = (
    *("agnews8000", "searchsnippets", "stackoverflow", "tweet", "tweet_gsdmm"),
    *("googlenews_ts", "googlenews_t", "googlenews_s"),
    *("googlenews_ts_gsdmm", "googlenews_t_gsdmm", "googlenews_s_gsdmm"),
)


def node(name: str) -> dict:
    config = yaml.safe_load((CONF / "dataset" / f"{name}.yaml").read_text())
    return config.get("dataset", config)


def dataset(name: str, **options) -> Dataset:
    return instantiate(node(name) | options)


@pytest.fixture
def prepared(mirror, data_dir):
    """Name -> corpus."""
    return lambda name: prepare(dataset(name), data_dir, mirror)


def rows_of(corpus: Corpus, split: str) -> list[dict]:
    def named(label):
        return sorted(map(named, label)) if isinstance(label, list) else corpus.label_names[label]

    return [row | {"label": named(row["label"])} for row in corpus.table(split).to_pylist()]


def expected_splits(folder: Path) -> dict[str, list[dict]]:
    """Split -> rows; labels are a list where texts have several."""
    splits = {}
    for path in folder.iterdir():
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            rows = [json.loads(line) for line in lines]
        split = path.name.removesuffix(".jsonl.gz").replace("valid", "val")
        splits[split] = [row if "label" in row else {"text": row["text"], "label": row["labels"]} for row in rows]
    return splits


def as_sets(rows: list[dict]) -> list[dict]:
    """As prepared: each label of a row once, in order."""
    return [row | {"label": sorted(set(row["label"]))} if isinstance(row["label"], list) else row for row in rows]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*FOLDERS, *SHORT_TEXTS])
def test_rows_equal_the_expected_ones(name, mirror, expected_data):
    builder = dataset(name)
    files = {file.path: file.local(mirror) for file in builder.sources}
    rows = builder.rows(files)
    expected = expected_splits(expected_data / FOLDERS.get(name, name))
    assert rows.keys() == expected.keys()
    for split in rows:
        assert list(rows[split]) == expected[split]


@pytest.mark.slow
@pytest.mark.parametrize("name", FOLDERS)
def test_prepared_rows_equal_the_expected_ones(name, prepared, expected_data):
    corpus = prepared(name)
    expected = expected_splits(expected_data / FOLDERS[name])
    if name == "biomedical":  # its split is ours
        order = {row["text"]: position for position, row in reversed(list(enumerate(expected["train"])))}
        rows = rows_of(corpus, "train") + rows_of(corpus, "test")
        assert sorted(rows, key=str) == sorted(expected["train"], key=str)
        for split in ("train", "test"):
            positions = [order[row["text"]] for row in rows_of(corpus, split)]
            assert sum(a > b for a, b in zip(positions, positions[1:], strict=False)) <= 3  # 3 texts occur twice
    else:
        assert {split: rows_of(corpus, split) for split in corpus.splits} == {
            split: as_sets(rows) for split, rows in expected.items()
        }


@pytest.mark.slow
@pytest.mark.parametrize("name", FOLDERS)
def test_card_agrees_with_the_statistics_of_the_sources(name, prepared, expected_data, mirror, tmp_path):
    manifest = json.loads((expected_data / "MANIFEST.json").read_text())["datasets"][FOLDERS[name]]
    whole = dataset(name)
    addresses = {source["raw"]: (source["sha256"], source["bytes"]) for source in manifest["sources"]}
    for file in whole.sources:
        assert addresses[file.address()] == (file.sha256, file.bytes)
    corpus = prepared(name)
    if name == "biomedical":
        assert corpus.card["splits"]["train"]["rows"] + corpus.card["splits"]["test"]["rows"] == 20_000
        return
    stated = {split.replace("valid", "val"): facts for split, facts in manifest["splits"].items()}
    assert set(corpus.splits) == set(stated)
    for split, facts in corpus.card["splits"].items():
        expected = stated[split]
        if corpus.multilabel:
            assert facts["cardinality"] == pytest.approx(expected["mean_labels"], abs=2e-3)
            assert facts["density"] == pytest.approx(facts["cardinality"] / len(corpus.label_names), abs=1e-4)
        assert facts["rows"] == expected["rows"]
        assert facts["classes"] == expected["classes"]
        assert (facts["largest"], facts["smallest"]) == (expected["max_class"], expected["min_class"])
        assert facts["ir"] == pytest.approx(expected["ir"], abs=0.005)
        assert facts["words"]["mean"] == pytest.approx(expected["mean_tokens"], abs=0.0051)
        assert facts["duplicates"] == expected["dup_rows_within"]
        if corpus.multilabel:  # the manifest folds case, and tells lists in another order apart
            sets = {(row["text"], tuple(row["label"])) for row in rows_of(corpus, split)}
            texts = Counter(text for text, _ in sets)
            assert facts["conflicting_texts"] == sum(number > 1 for number in texts.values())
        else:
            assert facts["conflicting_texts"] == expected["texts_with_conflicting_labels"]
        assert facts.get("augmented", 0) == expected["with_aug"]
        if expected["with_aug"]:
            changed = 1 - expected["aug_equal_text"] / expected["with_aug"]
            assert facts["augmented_changed"] == pytest.approx(changed, abs=1e-4)
        if split == "test":
            assert facts["leaks_exact"] == expected["leak_rows_exact"]
            assert facts["leaks_folded"] == expected["leak_rows_casefold_ws"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ohsumed", "biomedical", "tweet", "googlenews_t_gsdmm"])
def test_a_whole_set_has_every_row_in_the_order_of_the_source(name, mirror, expected_data, tmp_path):
    whole = prepare(dataset(name), tmp_path, mirror, all_rows=True)
    assert whole.splits == ("train",)
    splits = expected_splits(expected_data / FOLDERS.get(name, name))
    expected = sum((splits.get(split, []) for split in ("train", "test")), [])
    if "aug" in whole.table("train").column_names:
        expected = [{"aug": None} | row for row in expected]
    assert rows_of(whole, "train") == expected
    again = prepare(dataset(name), tmp_path, mirror)
    assert again.folder != whole.folder and again.splits == ("train", "test")


@pytest.mark.parametrize("name", SHORT_TEXTS)
def test_source_and_paper_of_a_short_text_set(name, expected_data):
    manifest = json.loads((expected_data / "MANIFEST.json").read_text())["datasets"][name]
    (file,), source = dataset(name).sources, manifest["sources"][0]
    assert (file.address(), file.sha256, file.bytes) == (source["raw"], source["sha256"], source["bytes"])
    paper = dataset(name).paper
    assert (paper["texts"], paper["classes"]) == (manifest["paper"]["train"], manifest["paper"]["classes"])


@pytest.mark.slow
def test_biomedical_split_is_a_stratified_stable_tenth(prepared, mirror, tmp_path):
    corpus = prepared("biomedical")
    counts = {split: np.bincount(corpus.table(split)["label"].to_numpy()) for split in corpus.splits}
    assert corpus.label_names == tuple(str(number) for number in range(1, 21))
    assert counts["train"].tolist() == [900] * 20
    assert counts["test"].tolist() == [100] * 20
    texts = {split: set(corpus.table(split)["text"].to_pylist()) for split in corpus.splits}
    assert not texts["train"] & texts["test"]
    digest = hashlib.sha256("\n".join(corpus.table("test")["text"].to_pylist()).encode()).hexdigest()
    assert digest[:16] == "f7a77d1f9842bc5a"
    assert "seed 0" in corpus.card["split_rule"]
    again = prepare(dataset("biomedical"), tmp_path, mirror)
    assert again.fingerprint == corpus.fingerprint


@pytest.mark.parametrize("name", [*FOLDERS, *SHORT_TEXTS, "csv", "jsonl", "hub", *USER_SETS])
def test_config_states_every_option_with_its_default(name):
    config = node(name)
    target = instantiate({"_target_": "hydra.utils.get_class", "path": config.pop("_target_")})
    parameters = {}
    for base in target.__mro__[:-1]:
        parameters |= {key: value for key, value in inspect.signature(base.__init__).parameters.items()
                       if value.kind is value.POSITIONAL_OR_KEYWORD and key != "self"} | parameters  # fmt: skip
    of_all = yaml.safe_load((CONF / "config.yaml").read_text())["dataset"]  # stated once, for every data set
    assert config.keys() | of_all.keys() <= parameters.keys()
    assert name not in ("csv", "jsonl", "hub") or config.keys() | of_all.keys() == parameters.keys()
    required = {key for key, value in config.items() if value == "???"}
    without_default = {key for key, value in parameters.items() if value.default is value.empty} - {"name"}
    stated = {"label_names"} if name in ("mpqa_polarity", "mpqa_intensity") else set()  # two sets of one builder
    assert required == without_default - stated and all(config[key] for key in stated)


@pytest.mark.parametrize("name", [*FOLDERS, *SHORT_TEXTS])
def test_augmented_sets_choose_their_own_texts(name, mirror):
    text = (CONF / "dataset" / f"{name}.yaml").read_text()
    builder = dataset(name)
    row = next(builder.rows({file.path: file.local(mirror) for file in builder.sources})["train"])
    assert ("override /augment: source" in text) == ("aug" in row)
