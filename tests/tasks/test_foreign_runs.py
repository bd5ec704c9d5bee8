"""A run folder from elsewhere is data: nothing in it is executed, and a damaged file is one line that names it."""

import itertools
import json
import random
import shutil
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file

from engine.allowed_targets import CONF, MODULES, target_findings
from engine.finished import check_encoder
from storage.run_store import RunFolder


@pytest.fixture
def run(fit, toy_csv, tmp_path):
    """The folder of a finished run."""
    result = fit("method=ce", "trainer.max_epochs=1")
    return result.folder


@pytest.fixture
def predict(use, toy_csv, tmp_path):
    return lambda folder: use("predict", str(folder), f"input={toy_csv['test']}", f"output={tmp_path}/p.csv")


def changed(config: Path, **nodes) -> None:
    content = yaml.safe_load(config.read_text())
    config.write_text(yaml.safe_dump(content | nodes))


def executing(mark: Path) -> dict:
    return {"_target_": "pathlib.Path.write_text", "_args_": [{"_target_": "pathlib.Path", "_args_": [str(mark)]}, "x"]}


@pytest.mark.slow
def test_nothing_foreign_is_executed(run, predict, tmp_path):
    """Every group, in turn at its top, below an own key, and in a list."""
    mark = tmp_path / "executed"
    foreign = executing(mark)
    original = (run / "config.yaml").read_text()
    groups = ("loss", "method", "dataset", "encoder", "sampler", "optimizer", "callbacks", "somewhere", "trainer")
    for group, places in zip(groups, itertools.cycle([foreign, {"extra": foreign}, {"extra": [foreign]}])):
        own = {} if places is foreign else yaml.safe_load(original).get(group) or {}
        changed(run / "config.yaml", **{group: {**own, **places}})
        result = predict(run)
        assert result.code == 2 and "_target_: found" in result.err, result.err
        assert not mark.exists()
        (run / "config.yaml").write_text(original)
    encoder = yaml.safe_load(original)["encoder"] | {"path": None, "package": "antigravity"}
    changed(run / "config.yaml", encoder=encoder)
    assert predict(run).error.startswith("encoder.package: found 'antigravity'")


@pytest.mark.parametrize(
    "target",
    [
        *("losses.distributed.gather", "losses.sharprecl.RebalancedSamples", "losses.distributed.torch.load"),
        *("torch.load", "os.system", "lightning_modules.x", None, 3, "", "."),
    ],
)
def test_a_target_is_of_its_groups_own_kind(target):
    assert len(list(target_findings({"loss": {"_target_": target}}))) == 1


def test_every_group_with_targets_has_its_modules():
    groups = {file.relative_to(CONF).parts[0] for file in CONF.glob("*/*.yaml") if "_target_:" in file.read_text()}
    assert groups - {"experiment", "method_active", "method_dataset", "method_protocol", "sweep"} <= set(MODULES)


def damages(content: bytes, rng: random.Random) -> dict[str, bytes]:
    """Ways in which a file goes bad."""
    flipped = bytearray(content)
    for _ in range(8):
        flipped[rng.randrange(len(flipped))] ^= 1 << rng.randrange(8)
    return {
        "empty": b"",
        "cut": content[: len(content) // 2],
        "text": b"this is no such file\n",
        "flipped": bytes(flipped),
        "zeros": bytes(len(content)),
        "null": b"null",
        "list": b"[]",
        "nested": b"[" * 100_000,
        "aliases": b"a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n",
    }


@pytest.mark.slow
def test_a_damaged_file_is_one_line_that_names_it(run, predict):
    rng = random.Random(0)
    assert predict(run).code == 0
    for name in ("checkpoints/best.ckpt", "metrics.json", "config.yaml"):
        original = (run / name).read_bytes()
        for kind, content in damages(original, rng).items():
            (run / name).write_bytes(content)
            result = predict(run)
            # a flipped letter of a number in a text file may leave a file that is still good
            assert result.code == 2 or (kind == "flipped" and name != "checkpoints/best.ckpt"), f"{name} {kind}"
            assert "Traceback" not in result.err and len(result.err.strip().splitlines()) <= 8, f"{name} {kind}"
        (run / name).write_bytes(original)
    assert predict(run).code == 0


@pytest.mark.slow
def test_weights_of_other_shapes(run, predict):
    file = run / "checkpoints" / "best.ckpt"
    checkpoint = torch.load(file, weights_only=True)
    checkpoint["state_dict"]["classifier.weight"] = torch.zeros(9, 9)
    torch.save(checkpoint, file)
    assert "SHA256SUMS" in predict(run).error
    (run / "SHA256SUMS").unlink()  # a run of an earlier version has none
    assert "tensors are not those of method=ce" in predict(run).error


@pytest.mark.slow
def test_figures_that_do_not_fit(run, predict):
    original = json.loads((run / "metrics.json").read_text())
    for key, value in (("label_names", None), ("label_names", [1]), ("class_counts", "x"), ("class_counts", [1])):
        (run / "metrics.json").write_text(json.dumps(original | {key: value}))
        assert predict(run).error.startswith(f"run {run.name}: metrics.json: ")


@pytest.mark.slow
def test_a_copy_elsewhere_serves_whatever_it_is_called(run, predict, tmp_path, monkeypatch):
    copy = shutil.copytree(run, tmp_path / "elsewhere" / run.name)
    assert predict(copy).code == 0
    renamed = copy.rename(tmp_path / "elsewhere" / "final")
    monkeypatch.chdir(renamed)
    assert predict(renamed).code == predict(".").code == 0
    (renamed / "SHA256SUMS").unlink()  # nothing then says whose the weights are
    assert predict(renamed).error.startswith(f"checkpoint: found one of run {run.name}, allowed: of run final, as the")


@pytest.mark.slow
def test_other_weights_of_a_frozen_encoder_are_refused(solve, use, tiny_encoder_dir, toy_csv, tmp_path):
    encoder = shutil.copytree(tiny_encoder_dir, tmp_path / "encoder")
    run = solve("method=logistic", f"encoder.path={encoder}").folder
    weights = load_file(encoder / "model.safetensors")
    save_file({name: 2 * tensor for name, tensor in weights.items()}, encoder / "model.safetensors", {"format": "pt"})
    line = ("predict", run.name, f"input={toy_csv['test']}", f"output={tmp_path}/p.csv")
    assert use(*line).error.startswith(f"run={run.name}: encoder=minilm: found other weights than the run learned with")
    (run / "environment.json").unlink()  # of a run that does not say what it learned with
    assert use(*line).code == 0


@pytest.mark.parametrize(("recorded", "is_refused"), [({"encoder_weights_sha256": "b"}, True), ({}, False)])
def test_an_encoder_is_held_against_the_hash_that_a_run_recorded(tmp_path, recorded, is_refused):
    run, plan = RunFolder(tmp_path), SimpleNamespace(encoder=SimpleNamespace(name="e5", weights_hash=lambda: "a"))
    check_encoder(run, plan)  # without the file
    run.write_json("environment.json", recorded)
    with pytest.raises(ValueError, match="encoder=e5: found other weights") if is_refused else nullcontext():
        check_encoder(run, plan)
