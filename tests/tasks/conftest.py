"""Fixtures for command lines on the toy CSV."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.tasks.command_lines import RUN_PY, Result, command
from tests.tasks.own_process import context, run_alone


@pytest.fixture
def store(tmp_path: Path) -> list[str]:
    """Overrides that put everything below the test's folder."""
    return ["paths.source_mirror=null", *(f"paths.{name}={tmp_path / name}" for name in ("runs", "data", "cache"))]


@pytest.fixture
def small(tiny_encoder_dir: Path) -> list[str]:
    """Overrides for a tiny encoder that learns something in a few short epochs."""
    return [
        "logger=csv",
        f"encoder.path={tiny_encoder_dir}",
        "encoder.sha256=null",
        "dataset.max_length=32",
        "trainer.max_epochs=2",
        "trainer.precision=32",
        "optimizer.lr=1e-2",
        "method.head_lr=1e-2",
    ]


@pytest.fixture
def files(toy_csv: dict[str, Path]) -> list[str]:
    """Overrides that choose the toy CSV."""
    return ["dataset=csv", *(f"dataset.{split}={path}" for split, path in toy_csv.items())]


@pytest.fixture
def fit(store: list[str], small: list[str], files: list[str]) -> Callable[..., Result]:
    """Train on the toy CSV: `fit("method=ce", "seed=1")`; later words win."""
    return lambda *arguments, stdin="": command([*files, *store, *small, *arguments], stdin)


@pytest.fixture
def cluster(store: list[str], toy_csv: dict[str, Path], tiny_encoder_dir: Path) -> Callable[..., Result]:
    """Cluster the train file of the toy CSV: `cluster("method=sbert_kmeans")`."""
    files = ["task=cluster", "dataset=csv", f"dataset.train={toy_csv['train']}", "dataset.max_length=32"]
    encoder = [f"encoder.path={tiny_encoder_dir}", "encoder.sha256=null"]
    return lambda *arguments: command([*files, *encoder, "logger=csv", *store, *arguments])


@pytest.fixture
def use(store: list[str]) -> Callable[..., Result]:
    """A task on a finished run: `use("evaluate", result, "output=-")`."""

    def call(task: str, run: Result | str, *arguments: str, stdin: str = "") -> Result:
        name = run if isinstance(run, str) else run.folder.name
        return command([f"task={task}", f"run={name}", *store, *arguments], stdin)

    return call


@pytest.fixture
def start(store, small, files, tmp_path, monkeypatch) -> Callable:
    """Start a command line in a process of its own; its output lies in NAME.out and .err."""
    monkeypatch.chdir(RUN_PY.parent)
    started = []

    def call(*arguments: str, name: str = "output", dies: Callable[[], None] | None = None):
        line = [*files, *store, *small, *arguments]
        process = context.Process(target=run_alone, args=(line, tmp_path / name, dies))
        process.start()
        started.append(process)
        return process

    yield call
    for process in started:
        process.kill()
        process.join()
