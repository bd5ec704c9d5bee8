"""A run's identity: what it follows, what it does not, and that the committed records are called by it."""

import copy
import importlib
import re
import shutil
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.allowed_targets import CONF
from engine.identify import compose_run
from engine.identity import SCHEMA, completed, formerly, place, relocated, run_id, unknown_options
from storage.records import read_store
from storage.run_store import ReportError

ROOT = Path(__file__).resolve().parents[2]
LINE = ("method=sharprecl", "dataset=trec", "encoder.train=frozen", "augment=source")
NOT_SAID = object()


@pytest.fixture
def config():
    return copy.deepcopy(dict(compose_run(LINE).config))


def changed(config, path, value):
    """The config with another value at a dotted key; `NOT_SAID` takes the key away."""
    config = copy.deepcopy(dict(config))
    *parents, key = path.split(".")
    node = config
    for parent in parents:
        node = node.setdefault(parent, {})
    node.pop(key, None) if value is NOT_SAID else node.update({key: value})
    return config


def test_the_id_has_the_names_and_ten_hex_digits(config):
    method, dataset, digest = run_id(config).split("-")
    assert (method, dataset) == ("sharprecl", "trec") and len(digest) == 10 and int(digest, 16) >= 0
    assert run_id({**config, "dataset": {"name": "my data/x"}}).startswith("sharprecl-my_data_x-")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        *(("paths.runs", "/elsewhere"), ("logger", {"name": "wandb"}), ("task", "evaluate"), ("force", True)),
        *(("text_column", "body"), ("input", "a.csv"), ("hydra", {"verbose": True}), ("trainer.devices", 4)),
        *(("trainer.accelerator", "gpu"), ("trainer.num_threads", 3), ("callbacks.progress", None)),
        *(("callbacks.nan_guard.interval", 7), ("a_later_group", None), ("callbacks.a_later_one", None)),
        *(("method.mixing_beta", NOT_SAID), ("loss.normaliser", NOT_SAID), ("trainer.max_steps", NOT_SAID)),
        *(("chat", {"name": "gpt35"}), ("cluster.level", 3), ("encoder.num_top_layers", 1)),  # frozen: none trains
        *(("sheet", "Data"), ("header", False), ("missing", ["NA"])),
        *(("encoder.lora", NOT_SAID), ("method.K", 20.0), ("optimizer.betas", [0.9, 0.999])),
    ],
)
def test_what_changes_no_result_changes_no_id(config, path, value):
    assert run_id(changed(config, path, value)) == run_id(config)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        *(("seed", 1), ("start_from", "ce-trec-0123456789"), ("method.mu", 0.5), ("trainer.precision", "32-true")),
        *(("trainer.max_epochs", 11), ("trainer.gradient_clip_val", None), ("dataset.max_length", 65)),
        *(("callbacks.early_stopping.patience", 6), ("callbacks.early_stopping", None), ("imbalance", None)),
        *(("loss._target_", "losses.SupervisedContrastiveLoss"), ("loss._target_", "elsewhere.SharpReCLLoss")),
        *(("encoder.lora", {"_target_": "lightning_modules.encoders.lora.LoRA"}), ("optimizer.lr", 1)),
    ],
)
def test_what_changes_a_result_changes_the_id(config, path, value, tmp_path, monkeypatch):
    (tmp_path / "elsewhere.py").write_text("from losses import SharpReCLLoss\n")  # a namesake from outside
    monkeypatch.syspath_prepend(str(tmp_path))
    assert run_id(changed(config, path, value)) != run_id(config)


def test_a_changed_argument_is_named_once_however_deep(config):
    first, other = ({"_target_": "lightning_modules.encoders.lora.LoRA", "rank": rank} for rank in (4, 5))
    assert run_id(changed(config, "encoder.lora", first)) != run_id(changed(config, "encoder.lora", other))


def test_null_is_a_value_like_any_other(config):
    clipped = {path: run_id(changed(config, "trainer.gradient_clip_val", path)) for path in (None, 1.0, 2.0)}
    assert len(set(clipped.values())) == 3
    assert run_id(changed(config, "trainer.gradient_clip_val", NOT_SAID)) == clipped[1.0], "the signature's default"


def test_own_files_count_by_content_and_not_by_name(config):
    def of(train, test, digests, **options):
        files = {"_target_": "datamodules.builders.user_files.Csv", "name": "csv", "train": train, "test": test}
        return run_id({**config, "dataset": files | options}, digests)

    before = of("a.csv", "b.csv", {"a.csv": "1", "b.csv": "2"})
    assert of("/x/c.csv", "./d.csv", {"/x/c.csv": "1", "d.csv": "2"}) == before
    assert of("a.csv", "b.csv", {"a.csv": "1", "b.csv": "3"}) != before
    assert of("a.csv", "b.csv", {"a.csv": "2", "b.csv": "1"}) != before, "train and test changed places"
    columns = {"text_column": "text", "label_names": ["", "csv"]}  # as folders of files may be called
    places = ("train.csv", "text/train.csv", "csv/train.csv")
    assert len({of(place, "b.csv", {place: "1", "b.csv": "2"}, **columns) for place in places}) == 1
    folder = {"_target_": "datamodules.builders.hub.Hub", "name": "hub", "path": "/x/set"}
    ids = {run_id({**config, "dataset": folder}, {f"/x/set/{name}": "1"}) for name in ("a", "b")}
    assert len(ids) == 1 and ids != {run_id({**config, "dataset": folder})}


def test_a_word_that_says_what_the_method_says_for_the_protocol_changes_no_id():
    line = ("method=knn_mltc", "dataset=reuters21578")
    plain, said = compose_run(line), compose_run((*line, "protocol.monitor=val/micro_f1"))
    assert plain.config["protocol"]["monitor"] == "val/micro_f1" and plain.id(0) == said.id(0)
    assert compose_run((*line, "protocol.monitor=val/macro_f1")).id(0) != said.id(0)
    assert compose_run((*line, "protocol=published")).config["protocol"]["monitor"] == "test/accuracy"
    assert compose_run(("method=bce", line[1])).config["protocol"]["monitor"] == "val/macro_f1"


VALUES = st.lists(st.one_of(st.integers(), st.floats(), st.none()))


@pytest.mark.slow
def test_a_published_archive_counts_by_its_digest_wherever_it_lies():
    line = ("method=ce", "dataset=cifar100", "dataset.archive=")
    here, there = (compose_run((*line[:2], line[2] + place)).id(0) for place in ("/a.tar.gz", "/b.tar.gz"))
    other, another = (compose_run((*line[:2], line[2] + p, "dataset.md5=null")).id(0) for p in ("/a.tgz", "/b.tgz"))
    assert here == there == compose_run(line[:2]).id(0) and len({here, other, another}) == 3


@given(st.dictionaries(st.text("ab", min_size=1), VALUES, min_size=1))
def test_the_order_of_keys_and_the_kind_of_sequence_say_nothing(node):
    config = {"method": {"name": "m"}, "dataset": {"name": "d"}, "own": node}
    own = {key: tuple(value) for key, value in reversed(node.items())}
    assert run_id({"own": own, **{key: config[key] for key in ("dataset", "method")}}) == run_id(config)


def test_an_id_needs_names_plain_values_and_targets_that_exist(config):
    with pytest.raises(ReportError, match=r"dataset\.name"):
        run_id({"method": {"name": "ce"}, "dataset": {}})
    with pytest.raises(ReportError, match="found PosixPath|found WindowsPath"):
        run_id(changed(config, "method.mu", Path("a")))
    with pytest.raises(ReportError, match="cannot import 'losses.NoSuchLoss'"):
        run_id(changed(config, "loss._target_", "losses.NoSuchLoss"))


@pytest.fixture
def own_loss(tmp_path, monkeypatch):
    """`own_loss(module, "tau: float = 0.5")` writes a loss below losses/ with these options; returns its target."""
    package = tmp_path / "losses"
    shutil.copytree(ROOT / "losses", package, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(sys.modules["losses"], "__path__", [str(package)])

    def write(module, options):
        sys.modules.pop(f"losses.{module}", None)
        (package / f"{module}.py").write_text(f"class OwnLoss:\n    def __init__(self, {options}): ...\n")
        importlib.invalidate_caches()
        for cached in ("_defaults", "_parameters", "place"):
            getattr(sys.modules["engine.identity"], cached).cache_clear()
        return f"losses.{module}.OwnLoss"

    yield write
    for name in [name for name in sys.modules if name.startswith("losses.") and "own" in name]:
        del sys.modules[name]


def test_a_moved_module_and_a_new_option_with_a_default_change_no_id(config, own_loss):
    config["loss"] = {"_target_": own_loss("own", "tau: float, beta: float = 2.0"), "tau": 0.3, "beta": 2}
    before = run_id(config)
    config["loss"]["_target_"] = own_loss("own_moved", "tau: float, beta: float = 2.0")
    assert run_id(config) == before, "another module"
    config["loss"]["_target_"] = own_loss("own_moved", "tau: float, beta: float = 2.0, sharp: bool = False")
    assert run_id(config) == before, "another option"
    config["loss"]["sharp"] = False
    assert run_id(config) == before, "its default, written out"
    config["loss"]["sharp"] = True
    assert run_id(config) != before


def test_a_run_keeps_its_values_when_a_default_changes(config, own_loss):
    config["loss"] = {"_target_": own_loss("own", "tau: float = 0.5, kind: str = None"), "kind": None}
    kept = completed(config)
    assert kept["loss"]["tau"] == 0.5 and run_id(kept) == run_id(config)
    own_loss("own", "tau: float = 0.3, kind: str = 'plain'")
    assert run_id(kept) != run_id(config), "the run had 0.5"
    assert completed(kept)["loss"]["kind"] == "plain", "null, which the option does not take any more"
    own_loss("own", "kind: str = 'plain'")
    assert list(unknown_options(kept)) == ["loss.tau"]


def test_a_config_from_before_a_move_finds_its_classes(config):
    old = changed(config, "method._target_", "lightning_modules.sharprecl.SharpReCLModule")
    assert relocated(old) == config and run_id(old) == run_id(config)
    assert place("losses.SharpReCLLoss") == "losses.SharpReCLLoss"


def test_no_two_classes_of_the_configs_share_a_name():
    """An id names a class without its module, and a class that moved is found by its name."""
    texts = [file.read_text(encoding="utf-8") for file in CONF.rglob("*.yaml")]
    targets = {target for text in texts for target in re.findall(r"_target_:\s*([\w.]+)", text)}
    assert len(targets) > 100 and len({target.rpartition(".")[2] for target in targets}) == len(targets)


@pytest.mark.parametrize(
    ("imbalance", "protocol", "drawn"),
    [
        ({"ir": 50}, {"name": "clean"}, "unthinned"),
        ({"ir": None}, {"name": "clean"}, None),
        ({"counts": [5, 3]}, {"name": "clean", "val_from": "thinned"}, "thinned"),
        ({"rows": [1, 2]}, {"name": "few_shot"}, None),
    ],
)
def test_an_old_run_that_thinned_is_none_of_the_new_kind(imbalance, protocol, drawn):
    assert formerly({"imbalance": imbalance, "protocol": protocol})["protocol"].get("val_from") == drawn


@pytest.mark.slow
def test_every_committed_record_is_called_by_its_id():
    """A default that changes, or a class that is renamed, wants `python -m papers.rename_records`."""
    runs = [run for folder in sorted((ROOT / "reports").iterdir()) if folder.is_dir() for run in read_store(folder)]
    wrong = [run for run in runs if run_id(run.read_config(), run.read_environment().get("inputs")) != run.id]
    assert len(runs) >= 759 and SCHEMA == 2
    assert wrong == []
