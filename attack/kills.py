"""Kills at any moment of most tasks: the same line, typed again, must end as one that nobody disturbed."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attack.command import Shell
from attack.place import Place
from storage.run_store import may_differ

SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGINT, signal.SIGTERM)
INTERPRETER_STARTS = 0.05  # seconds in which any signal ends Python, before it reads the first line of a program
OWN = {  # of a process, not of a result
    ".lock", "run.log", "environment.json", "SHA256SUMS", "sources.json",
}  # fmt: skip


STATES = "callbacks.last.every_seconds=0"  # a state after each epoch, however short, to go on from
ACTIVE = ("active=random", "active.query_size=4", "active.budget=4")


@dataclass(frozen=True)
class Task:
    """A command line to be killed, by the folder that it may write in; what that folder holds before."""

    name: str
    words: Callable[[Place, Path], list[str]]
    before: str | None = None  # the run that is copied into it
    timed: frozenset[str] = frozenset()  # files and folders that say how long it took


def _fit(*more: str) -> Callable[[Place, Path], list[str]]:
    return lambda place, folder: [*place.data, *place.store(folder / "runs", folder), *place.small, *more]


def _cluster(*more: str) -> Callable[[Place, Path], list[str]]:
    def words(place: Place, folder: Path) -> list[str]:
        return [*place.clustered, *place.store(folder / "runs", folder), *place.small_clustering, "task=cluster", *more]

    return words


def _use(*more: str, run: str = "run") -> Callable[[Place, Path], list[str]]:
    def words(place: Place, folder: Path) -> list[str]:
        filled = [word.format(folder=folder, file=place.files["test"]) for word in more]
        return [*filled, f"run={folder / 'runs' / getattr(place, run).name}", *place.store(folder / "runs", folder)]

    return words


TASKS = (
    Task("fit", _fit("method=sharprecl", STATES)),
    Task("fit ce", _fit("method=ce", STATES)),
    Task("fit with neighbours", _fit("method=ce", "retrieval=knn", STATES)),
    Task("fit kontrast", _fit("method=kontrast", STATES)),
    Task("fit solved", lambda place, folder: [
        word for word in _fit("method=logistic", "encoder.train=frozen")(place, folder) if word.partition("=")[0] not in
        ("optimizer.lr", "trainer.max_epochs", "trainer.precision", "method.head_lr")]),
    Task("cluster", _cluster("method=sbert_kmeans")),
    Task("cluster trained", _cluster("method=sccl", "augment=dropout", "trainer.max_epochs=1")),
    Task("cluster in stages", _cluster(
        "method=aecl", "augment=dropout", "method.stage1_epochs=1", "method.stage2_epochs=1", "trainer.max_epochs=3",
        STATES)),
    Task("active", _fit("method=ce", "trainer.max_epochs=1", *ACTIVE)),
    Task("describe", lambda place, folder: [*place.data, *place.store(folder / "runs", folder), "task=describe"]),
    Task("predict", _use("task=predict", "input={file}", "output={folder}/out.csv"), "run"),
    Task("export", _use("task=export", "output={folder}/export", run="without_neighbours"), "without_neighbours"),
    Task("evaluate", _use("task=evaluate"), "run"),
    Task("drift", _use("task=drift", "input={file}", "output={folder}/out.csv", run="clustering"), "clustering"),
    Task(
        "auto",
        lambda place, folder: [
            "task=auto", f"input={place.files['train']}", "minutes=5", "methods=[tfidf_linear,logistic,neighbours]",
            *place.store(folder / "runs", folder), f"encoder.path={place.encoder}", "encoder.sha256=null",
        ],
        timed=frozenset({"folds", "candidates.json", "index.html", "metrics.json", "question.json", "ranking.csv"}),
    ),
    Task("datastore", _use("task=datastore", "add={file}"), "run"),
)  # fmt: skip


class Kills:
    """Kills of tasks in a place, one after the other."""

    def __init__(self, place: Place, shell: Shell) -> None:
        self.place, self.shell = place, shell
        self.undisturbed: dict[str, tuple[dict[str, str], float]] = {}

    def kill(self, rng: random.Random, number: int) -> tuple[str, list[str], str | None]:
        """Kill a task one to three times, then let it end: what was done, its words, what went wrong or None."""
        task = TASKS[number % len(TASKS)]
        if task.name not in self.undisturbed:
            folder = self._folder(task, f"undisturbed-{TASKS.index(task)}")
            outcome = self.shell.run(task.words(self.place, folder))
            if outcome.code != 0:
                return task.name, task.words(self.place, folder), f"undisturbed: {outcome.text}"
            self.undisturbed[task.name] = content(folder, task.timed), outcome.seconds
        expected, seconds = self.undisturbed[task.name]
        folder = self._folder(task, f"kill-{number}")
        words, done = task.words(self.place, folder), []
        for _ in range(rng.choice([1, 1, 2, 3])):
            after, sign = rng.uniform(0, seconds), rng.choice(SIGNALS)
            outcome = self.shell.run_until(words, after, sign)
            done.append(f"{sign.name} after {after:.2f} s: {outcome.code}")
            ends = sign is signal.SIGKILL or after < INTERPRETER_STARTS
            allowed = (0, 130, -int(sign)) if ends else (0, 130)
            if outcome.code not in allowed or "Traceback" in outcome.text:
                return f"{task.name}: {'; '.join(done)}", words, outcome.text
        again = self.shell.run(words)
        problem = again.text if again.code != 0 else difference(expected, content(folder, task.timed))
        if problem is None:
            shutil.rmtree(folder)
        return f"{task.name}: {'; '.join(done)}", words, problem

    def _folder(self, task: Task, name: str) -> Path:
        folder = self.place.folder / name
        folder.mkdir()
        if task.before:
            run: Path = getattr(self.place, task.before)
            shutil.copytree(run, folder / "runs" / run.name)
            for name in ("data", "cache"):
                shutil.copytree(self.place.folder / name, folder / name)
        return folder


def content(folder: Path, timed: frozenset[str] = frozenset()) -> dict[str, str]:
    """Digest of every file that a command left, without times; of a checkpoint that of its tensors."""
    files = {file.relative_to(folder): file for file in sorted(folder.rglob("*")) if file.is_file()}
    results = {
        name: file
        for name, file in files.items()
        if name.parts[0] not in ("data", "cache") and name.name not in OWN and not timed.intersection(name.parts)
    }
    left = {str(name) for name in files if ".tmp" in name.name}
    return {str(name): _digest(file, folder) for name, file in results.items()} | dict.fromkeys(left, "left over")


def difference(expected: dict[str, str], actual: dict[str, str]) -> str | None:
    """The names of files that differ, or None."""
    names = sorted(name for name in expected.keys() | actual.keys() if expected.get(name) != actual.get(name))
    return f"other content: {', '.join(names)}" if names else None


def _digest(file: Path, folder: Path) -> str:
    if file.suffix == ".ckpt":
        import torch

        state = torch.load(file, map_location="cpu", weights_only=True)["state_dict"]
        return hashlib.sha256(b"".join(state[name].numpy().tobytes() for name in sorted(state))).hexdigest()
    data = file.read_bytes()
    if file.suffix == ".json":
        data = json.dumps(_timeless(json.loads(data)), sort_keys=True).encode()
    for name in (str(folder), folder.name):  # where it lies, as a README says it
        data = data.replace(name.encode(), b"")
    return hashlib.sha256(data).hexdigest()


def _timeless(node: Any) -> Any:
    """JSON without what no two equal runs share."""
    if isinstance(node, dict):
        return {key: _timeless(value) for key, value in node.items() if not may_differ(key)}
    return [_timeless(value) for value in node] if isinstance(node, list) else node
