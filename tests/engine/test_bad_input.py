"""What is wrong is said in one line that names it and what is allowed; nothing half-written stays."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from engine.allowed_targets import CONF
from engine.overrides import check_pair
from tests.command_lines import RUN_PY, command

ONE_LINE = [
    (["method=sharpcrl"], ["method=sharpcrl", "sharprecl", "allowed"]),
    (["dataset=null"], ["dataset: found null", "agnews"]),
    (["~loss"], ["loss: found null", "sharprecl"]),
    (["methd=ce"], ["methd", "allowed", "method"]),
    (["method=ce", "method.K=5"], ["method.K", "allowed"]),
    (["loss.tau=abc"], ["loss.tau", "abc", "a number"]),
    (["imbalance.ir=1000"], ["imbalance.ir", "1000"]),
    (["dataset.max_length=5000"], ["dataset.max_length", "5000", "64"]),
    (["method_dataset=nonsense"], ["method_dataset=nonsense: unknown choice; allowed: acl_cifar100, "]),
    (["trainer=gpu"], ["trainer.accelerator", "gpu", "no GPU", "cpu"]),
    (["dataset=[1]"], ["dataset=[1]", "group=choice"]),
    (["loss.tau=é"], ["loss.tau=é: not of the form key=value; ", "two kinds of quotes: \"loss.tau='é'\""]),
    (["encoding={a: 1}"], ["encoding", "text"]),
    (["task=predict"], ["run", "predict"]),
    (["optimizer.lr=1e30", "trainer.gradient_clip_val=null"], ["loss", "optimizer.lr"]),
]
MORE = [  # of kinds that the tests of plans have too
    (["method.k=3"], ["method.k", "allowed", "K"]),
    (["+method.k=3"], ["method.k", "allowed"]),
    (["method=ce", "loss.tau=0.3"], ["loss.tau"]),
    (["loss.tau=0"], ["loss.tau", "0", "> 0"]),
    (["loss.tau=-1"], ["loss.tau", "-1", "> 0"]),
    (["method.K=0"], ["method.K", "0", ">= 1"]),
    (["sampler.batch_size=1"], ["sampler.batch_size", "1", ">= 2"]),
    (["imbalance.ir=0.5"], ["imbalance.ir", "0.5", ">= 1"]),
    (["encoder.pooling=max"], ["encoder.pooling", "mean, cls, first_token"]),
    (["encoder.train=frozen", "augment=dropout"], ["augment=dropout", "frozen", "eda"]),
    (["method=ce", "augment=eda"], ["augment", "method.num_views"]),
    (["trainer.devices=0"], ["trainer.devices", "0", ">= 1"]),
    (["trainer.num_threads=1024"], ["trainer.num_threads", "1024", "for each processor here"]),
    (["trainer.strategy=ddp"], ["trainer.strategy: unknown key"]),
    (["method=ce", "retrieval.k=5"], ["retrieval.k: unknown key; retrieval is null here; allowed: retrieval=NAME"]),
    (["trainer=ddp", "trainer.devices=4"], ["trainer.accelerator", "gpu", "ddp_cpu"]),
    (["trainer=ddp_cpu", "sampler.batch_size=15"], ["sampler.batch_size", "15", "a multiple of 2"]),
    (["trainer=ddp_cpu", "trainer.num_nodes=2"], ["trainer.num_nodes", "2", "srun", "MASTER_ADDR"]),
    (["trainer.max_epochs=by_size"], ["trainer.max_epochs", "by_size", "task=cluster"]),
    (["trainer.accumulate_grad_batches=0"], ["trainer.accumulate_grad_batches", "0", ">= 1"]),
    (["trainer.gradient_cache_chunk=0"], ["trainer.gradient_cache_chunk", "0", ">= 1"]),
    (["trainer.gradient_cache_chunk=128"], ["trainer.gradient_cache_chunk", "128", "below a batch's 128 rows"]),
    (["trainer.gradient_cache_chunk=8", "encoder.train=frozen"], ["trainer.gradient_cache_chunk", "frozen"]),
    (["trainer.precision=16-mixed"], ["trainer.precision", "16-mixed", "bf16"]),
    (["task=atuo"], ["task: found 'atuo'; allowed: fit, auto, describe", "(did you mean auto?)"]),
    (["task=evaluate", "run=nothing-like-it"], ["nothing-like-it"]),
]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [*ONE_LINE, *(pytest.param(*case, marks=pytest.mark.slow) for case in MORE)],
    ids=lambda value: " ".join(value),
)
def test_a_bad_setting(fit, store, arguments: list[str], words: list[str]) -> None:
    on_a_run = any(word in ("task=predict", "task=evaluate") for word in arguments)
    error = command([*arguments, *store]).error if on_a_run else fit(*arguments).error
    assert [word for word in words if word not in error] == [], error


def test_a_choice_that_a_group_does_not_have_though_the_config_names_it_as_optional() -> None:
    entries = yaml.safe_load((CONF / "config.yaml").read_text())["defaults"]
    keys = [key for entry in entries if isinstance(entry, dict) for key in entry]
    groups = [key.removeprefix("optional ") for key in keys if key.startswith("optional ")]
    assert len(groups) > 3
    for group in groups:
        with pytest.raises(ValueError, match=f"{group}=nonsense: unknown choice; allowed: "):
            check_pair([f"{group}=nonsense"])


def test_more_gpus_than_there_are(fit, monkeypatch) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    error = fit("trainer=ddp", "trainer.devices=4").error
    assert error == "trainer.devices: found 4, allowed: at most 1, the GPUs that torch sees here"


def test_several_processes_serve_fit_alone(store) -> None:
    error = command(["task=describe", "dataset=cr", "trainer=ddp_cpu", *store]).error
    assert error == "trainer.devices: found 2 processes in all, allowed with task=describe: 1"


GOOD = [("good apple", "fruit"), ("ripe pear", "fruit"), ("old iron", "metal"), ("new zinc", "metal")] * 4
BAD_FILES = {
    "missing column": ("title,label\na,b\n", ["train.csv", "text", "title"]),
    "empty text": ("text,label\na,fruit\n  ,metal\n", ["train.csv:3", "text"]),
    "no label": ("text,label\na,fruit\nb,\n", ["train.csv:3", "label"]),
    "NaN label": ("text,label\na,fruit\nb,nan\n", ["train.csv:3", "nan"]),
    "one class": ("text,label\na,fruit\nb,fruit\n", ["fruit", "2"]),
    "a class of one row": (
        "text,label\nwet rain,weather\n" + "".join(f"{text} {n},{label}\n" for n, (text, label) in enumerate(GOOD)),
        ["weather", "singleton_classes=keep_in_train"],
    ),
    "no rows": ("text,label\n", ["train.csv"]),
    "too many fields": ("text,label\na,b,c\n", ["train.csv:2"]),
}


@pytest.mark.parametrize("kind", BAD_FILES)
def test_a_bad_file(store, small, toy_csv, tmp_path: Path, kind: str) -> None:
    content, words = BAD_FILES[kind]
    toy_csv["train"].write_text(content)
    test = [f"dataset.test={toy_csv['test']}"] if kind == "one class" else []  # that one is drawn is a line before
    error = command(["dataset=csv", f"dataset.train={toy_csv['train']}", *test, *store, *small]).error
    assert [word for word in words if word not in error] == [], error
    if kind != "a class of one row":  # that is a sound data set, refused by the split
        assert not [path for path in (tmp_path / "data").glob("*") if path.is_dir() and path.name.startswith("csv")]


def test_a_label_that_only_test_has(store, small, toy_csv) -> None:
    with toy_csv["test"].open("a") as file:
        file.write("a green idea,thought\n")
    error = command(["dataset=csv", *(f"dataset.{k}={v}" for k, v in toy_csv.items()), *store, *small]).error
    assert "thought" in error and "test" in error


@pytest.mark.slow
def test_a_file_that_must_be_given_or_is_not_there(store, small) -> None:
    assert "dataset.train" in command(["dataset=csv", *store, *small]).error
    assert "nowhere.csv" in command(["dataset=csv", "dataset.train=nowhere.csv", *store, *small]).error


def test_a_changed_source_file_is_refused(mirror: Path, store, small, tmp_path: Path) -> None:
    copy = tmp_path / "mirror" / "KEAML-JLU"
    shutil.copytree(mirror / "KEAML-JLU", copy)
    file = next(copy.rglob("ohsumed_Test.json"))
    file.chmod(0o644)
    file.write_bytes(file.read_bytes()[:-10])
    paths = [p for p in store if "mirror" not in p] + [f"paths.source_mirror={tmp_path / 'mirror'}"]
    error = command(["dataset=ohsumed", *paths, *small]).error
    assert "ohsumed_Test.json" in error


def test_a_run_that_failed_says_why(fit, tmp_path: Path) -> None:
    error = fit("optimizer.lr=1e30", "trainer.gradient_clip_val=null").error
    (file,) = tmp_path.glob("runs/*/metrics.json")
    metrics = json.loads(file.read_text())
    assert metrics["status"] == "failed" and metrics["error"] in error


@pytest.mark.slow
def test_a_sweep_goes_on_past_a_failing_job_and_repeats_nothing(store, small, files, tmp_path: Path) -> None:
    line = [sys.executable, str(RUN_PY), "-m", *files, *store, *small, "loss.tau=0.3,0"]

    def start() -> subprocess.CompletedProcess:
        return subprocess.run(line, capture_output=True, text=True, cwd=RUN_PY.parent)

    first = start()
    assert first.returncode != 0
    assert "2 jobs, 1 finished, 1 not" in first.stdout and "loss.tau: found 0" in first.stdout
    finished = {file: file.stat().st_mtime_ns for file in tmp_path.glob("runs/*/checkpoints/best.ckpt")}
    assert len(finished) == 1
    assert "2 jobs, 1 finished, 1 not" in start().stdout
    assert {file: file.stat().st_mtime_ns for file in tmp_path.glob("runs/*/checkpoints/best.ckpt")} == finished
