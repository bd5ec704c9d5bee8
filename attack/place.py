"""Where an attack takes place: tiny files, a tiny encoder, finished runs of every kind, all in one folder."""

from __future__ import annotations

import csv
import json
import random
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from attack import damage
from attack.command import PREPARE, ROOT, RUN, Shell
from attack.toy import TOPICS, small_options, write_csv_files, write_encoder

FIT = ["method=ce", "retrieval=knn", "trainer.max_epochs=1"]
CLUSTER = ["task=cluster", "method=sbert_kmeans"]


@dataclass(frozen=True)
class Line:
    """A command line, what was done to its files, and the file that must not be there after it."""

    words: list[str]
    about: str
    script: str = RUN
    mark: Path | None = None


class Place:
    """The files of an attack, below `folder`; `ready` trains the runs that other tasks work on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.files = write_csv_files(folder)
        self.encoder = write_encoder(folder / "encoder")
        with self.files["train"].open(newline="") as file:
            rows = list(csv.DictReader(file))
        self.files["lines"] = folder / "train.jsonl"
        self.files["lines"].write_text("".join(json.dumps(row) + "\n" for row in rows))
        for name, write in (("yaml", yaml.safe_dump), ("json", json.dumps)):
            self.files[name] = folder / f"classes.{name}"
            self.files[name].write_text(write({topic: f"about {words[0]}" for topic, words in TOPICS.items()}))

    def store(self, runs: Path | str = "runs", rest: Path | str = ".") -> list[str]:
        """Overrides that put everything below the folder; `rest` holds the data and the caches."""
        rest = self.folder / rest
        return [
            "paths.source_mirror=null",
            f"paths.runs={self.folder / runs}",
            f"paths.data={rest}/data",
            f"paths.cache={rest}/cache",
        ]

    @property
    def data(self) -> list[str]:
        return ["dataset=csv", f"dataset.train={self.files['train']}", f"dataset.test={self.files['test']}"]

    @property
    def clustered(self) -> list[str]:
        """The data of a clustering, which has no splits."""
        return [word for word in self.data if not word.startswith("dataset.test=")]

    @property
    def small(self) -> list[str]:
        """Overrides for the tiny encoder."""
        return small_options(self.encoder)

    @property
    def small_clustering(self) -> list[str]:
        return ["logger=csv", f"encoder.path={self.encoder}", "encoder.sha256=null", "dataset.max_length=32"]

    def ready(self, shell: Shell) -> None:
        """Do the runs that predict, export, evaluate and the datastore need. Raises RuntimeError where one fails."""
        self.run = self._done(shell, [*self.data, *self.store(), *self.small, *FIT])
        without = [word for word in FIT if not word.startswith("retrieval=")]
        self.without_neighbours = self._done(shell, [*self.data, *self.store(), *self.small, *without])  # for export
        self.clustering = self._done(shell, [*self.clustered, *self.store(), *self.small_clustering, *CLUSTER])

    def _done(self, shell: Shell, words: list[str]) -> Path:
        outcome = shell.run(words)
        if outcome.code != 0:
            raise RuntimeError(f"no attack without a sound run: {outcome.text}")
        return Path(outcome.text.splitlines()[-1])

    def file_attack(self, rng: random.Random, case: Path) -> Line:
        """A command line with one bad file, which lies below `case`."""
        case.mkdir(parents=True)
        kinds = [self._bad_data] * 3 + [self._bad_input] * 3 + [self._bad_descriptions, self._bad_encoder]
        return rng.choice([*kinds, *[self._bad_run] * 3, self._foreign_run])(rng, case)

    def _bad_data(self, rng: random.Random, case: Path) -> Line:
        choice, source = rng.choice([("csv", "train"), ("jsonl", "lines")])
        file, about = _damaged(self.files[source], case, rng)
        which = rng.choice(["train", "test"])
        other = "test" if which == "train" else "train"
        splits = [f"dataset.{which}={file}", f"dataset.{other}={self.files[source if other == 'train' else 'train']}"]
        splits = (
            splits if which == "train" or choice == "csv" else splits[:1] + [f"dataset.train={self.files['lines']}"]
        )
        if choice == "jsonl" and which == "train":
            splits = splits[:1]
        words = [f"dataset={choice}", *splits, *self.store(rest=case), *self.small, "method=ce"]
        return Line(words, about, PREPARE)

    def _bad_input(self, rng: random.Random, case: Path) -> Line:
        file, about = _damaged(self.files[rng.choice(["train", "lines"])], case, rng)
        if rng.random() < 0.25:
            run = shutil.copytree(self.run, case / "run")
            return Line(["task=datastore", f"run={run}", f"add={file}", *self.store()], about)
        run = rng.choice([self.run, self.run, self.clustering])
        output = case / f"out.{rng.choice(['csv', 'jsonl'])}"
        return Line(["task=predict", f"run={run}", f"input={file}", f"output={output}", *self.store()], about)

    def _bad_descriptions(self, rng: random.Random, case: Path) -> Line:
        file, about = _damaged(self.files[rng.choice(["yaml", "json"])], case, rng)
        words = [*self.data, *self.store(), *self.small, "method=prototypes", f"dataset.class_descriptions={file}"]
        return Line(words, about, PREPARE)

    def _bad_encoder(self, rng: random.Random, case: Path) -> Line:
        folder = shutil.copytree(self.encoder, case / "encoder")
        _, about = _damaged(rng.choice([file for file in sorted(folder.iterdir()) if file.is_file()]), folder, rng)
        words = [*self.data, *self.store(), *self.small, "method=ce", f"encoder.path={folder}"]
        return Line(words, about, PREPARE)

    def _bad_run(self, rng: random.Random, case: Path) -> Line:
        whole = rng.choice([self.run, self.run, self.clustering])
        run = shutil.copytree(whole, case / "runs" / whole.name)
        mark = case / "executed"
        files = sorted(
            file for file in run.rglob("*") if file.is_file() and file.suffix not in (".log", ".lock", ".svg")
        )
        file = rng.choice([run / "config.yaml", run / "metrics.json", *(run / "checkpoints").glob("*"), *files])
        if file.suffix == ".ckpt" and rng.random() < 0.3:
            file.write_bytes(damage.pickled(mark))
            about = f"{file.name}: a pickle that executes"
        elif file.suffix == ".json" and rng.random() < 0.5 and file.read_bytes()[:1] == b"{":
            file.write_bytes(damage.changed_json(file.read_bytes(), rng))
            about = f"{file.name}: changed value"
        else:
            _, about = _damaged(file, file.parent, rng)
        if rng.random() < 0.5:
            (run / "SHA256SUMS").unlink(missing_ok=True)
        if rng.random() < 0.3:
            return replace(self._read_again(rng, whole, case), about=about, mark=mark)
        return Line([*self._use(rng, case), f"run={run}", *self.store()], about, mark=mark)

    def _read_again(self, rng: random.Random, whole: Path, case: Path) -> Line:
        """The line that made a run, or a table over it and the sound ones beside it."""
        if rng.random() < 0.5:
            shutil.copytree(self.run, case / "runs" / "ce-csv-sound")
            return Line([str(case / "runs"), "dataset=csv", "by=loss"], "", str(ROOT / "reporting" / "compare.py"))
        words = [*self.data, *self.small, *FIT]
        if whole == self.clustering:
            words = [*self.clustered, *self.small_clustering, *CLUSTER]
        return Line([*words, *self.store(case / "runs")], "")

    def _foreign_run(self, rng: random.Random, case: Path) -> Line:
        run = shutil.copytree(self.run, case / "run")
        config = yaml.safe_load((run / "config.yaml").read_text())
        changed = damage.foreign(config, case / "executed", rng)
        (run / "config.yaml").write_text(yaml.safe_dump(changed))
        return Line(
            [*self._use(rng, case), f"run={run}", *self.store()], "config.yaml: foreign", mark=case / "executed"
        )

    def _use(self, rng: random.Random, case: Path) -> list[str]:
        task = rng.choice(["predict", "predict", "evaluate", "export", "datastore"])
        more = {
            "predict": [f"input={self.files['test']}", f"output={case}/out.csv"],
            "export": [f"output={case}/export"],
        }
        return [f"task={task}", *more.get(task, [])]


def _damaged(file: Path, folder: Path, rng: random.Random) -> tuple[Path, str]:
    """A file of the same name in `folder` with damaged content, and in words what was done to it."""
    name, content = damage.damaged(file.read_bytes(), rng)
    target = folder / file.name
    target.write_bytes(content)
    return target, f"{file.name}: {name}"
