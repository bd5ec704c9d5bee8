"""What is asked of one data set, and what came of it so far: the rows and their folds, an entry for each candidate, and
the outcome of every fold. Here it is kept and written into the folder, at once, so that a later start goes on with it;
`order.py` says in which order candidates are tried."""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.files import replacing
from storage.run_store import QUESTION, RunFolder
from storage.tables import folded
from tasks.auto.candidates.calibration import decision_metrics
from tasks.auto.candidates.declarations import Candidate, by_name
from tasks.auto.candidates.embeddings import Embeddings
from tasks.auto.candidates.folds import FoldOutcome, cross_calibrated, each_fold, load_outcome
from tasks.auto.comparison.clock import Clock

FOLDS, FOLDS_OF_MANY = 5, 3
SHOWN = {"minilm": "MiniLM"}  # an encoder in titles, where that is not its name
PAIR_STEPS = (80, 64, 48)  # to choose among by the time: more bring nothing on train rows of six sets
MANY_ROWS = 5000  # from which there are fewer folds
# held out and predicted, on which a candidate is compared where there is no time for all folds
ENOUGH_ROWS, ENOUGH_SHARE, LEAST_HELD_OUT = 1000, 0.6, 100  # of few rows that share, but no fewer than the last
NO_ENCODER, NO_UNLABELLED = "no time to load and run the encoder", "no texts without a label"  # reasons
LACKS_CLASS = "all rows of a class lie in one fold, and its loss has no size of that class where they are held out"


def enough_folds(candidate: Candidate, folds: int, rows: int) -> int:
    """How many of so many folds hold enough of the rows to compare a candidate: two at least where one is calibrated on
    the others."""
    enough = min(ENOUGH_ROWS, max(ENOUGH_SHARE * rows, LEAST_HELD_OUT), rows)
    least = math.ceil(round(folds * enough / rows, 9))
    return least if candidate.validates else max(least, 2)


@dataclass
class Entry:
    """What `candidates.json` says of a candidate."""

    candidate: str
    title: str
    overrides: list[str]
    cost: int
    status: str = "skipped"
    reason: str | None = None
    needed_seconds: float | None = None  # that were not left
    train_seconds: float | None = None
    texts_per_second: float | None = None
    size_mib: float | None = None
    validation_macro_f1: float | None = None
    macro_f1: float | None = None
    run_ids: list[str] = field(default_factory=list)
    can_be_recommended: bool = True
    not_fitted: str | None = None  # why it was to be recommended and could not be fitted to all rows
    is_known_to_gain: bool = False
    learns_for_longer: bool = False  # on all rows than in the folds
    pair_steps: tuple[float, float] | None = None  # of a brief candidate, in the folds and on all rows
    parts: list[str] = field(default_factory=list)


class Study:
    """The candidates of one question and what came of them; every fold that ends is kept in the folder at once.

    Args:
        run: the folder.
        clock: of the question.
        words: overrides of all its runs: the rows, the encoder, where things lie.
        label_names: C.
        labels: (N,) class indices, or (N, C) of 0 and 1 where texts have several.
        texts: N.
        embeddings: of the frozen encoder; None where there was no time for it.
        unlabelled: overrides of those runs that read texts without a label.

    Attributes:
        folds, repeats: how many folds there are, and how often they are drawn.
        pair_steps: of training by pairs, of a batch each.
        entries: of the candidates, by name.
        outcomes: by name of the candidate, then by drawing and fold.
        told_seconds: of a fold of those that were stopped after their first steps, by name.
    """

    def __init__(
        self,
        run: RunFolder,
        clock: Clock,
        words: Sequence[str],
        label_names: Sequence[str],
        labels: NDArray[np.int64],
        texts: Sequence[str],
        embeddings: Embeddings | None,
        unlabelled: Sequence[str] = (),
    ) -> None:
        self.run, self.clock, self.words, self.unlabelled = run, clock, list(words), list(unlabelled)
        self.label_names, self.labels = list(label_names), labels
        self.texts = np.array(texts, dtype=object)
        self.embeddings = embeddings
        self.num_classes, self.several = len(self.label_names), labels.ndim == 2
        self.by_name = by_name(self.several)
        clock.expect_report(len(labels), self.num_classes)
        most = FOLDS if len(labels) < MANY_ROWS else FOLDS_OF_MANY
        self.folds = min(most, len(set(map(folded, texts))))
        if self.has_begun:
            self.folds = run.read_json(QUESTION).get("folds", self.folds)
        self.pair_steps = PAIR_STEPS[0]
        if self.has_begun:
            self.pair_steps = run.read_json(QUESTION).get("pair_steps", self.pair_steps)
        self.entries: dict[str, Entry] = {}
        self.outcomes: dict[str, dict[tuple[int, int], FoldOutcome]] = {}
        self.told_seconds: dict[str, float] = {}
        self.repeats = 1

    @property
    def has_begun(self) -> bool:
        """Whether an earlier start chose the folds."""
        return (self.run.path / "folds").exists() and self.run.has(QUESTION)

    def take_pair_steps(self, steps: int) -> None:
        """From now on, and in a later start, pairs are learned from for so many steps."""
        self.pair_steps = steps
        if self.run.has(QUESTION):
            self.run.write_json(QUESTION, self.run.read_json(QUESTION) | {"pair_steps": steps})

    @property
    def class_counts(self) -> NDArray[np.int64]:
        """Rows of each class, or that have each label."""
        return self.labels.sum(axis=0) if self.several else np.bincount(self.labels, minlength=self.num_classes)

    @property
    def lacks_class(self) -> bool:
        """Whether the train rows of a fold have none of a class, as where a class has one row."""
        held_out = each_fold(self.labels, list(self.texts), self.folds, 0)
        counts = [np.bincount(self.labels[rows], minlength=self.num_classes) for rows in held_out]
        return any((of_fold == self.class_counts).any() for of_fold in counts)

    def divide(self, folds: int) -> None:
        """Begin anew with so many folds, in the folder too."""
        for name in ("folds", "out_of_fold"):  # the folds first: with them gone, a later start chooses how many
            shutil.rmtree(self.run.path / name, ignore_errors=True)
        (self.run.path / "learning_curve.csv").unlink(missing_ok=True)
        if self.run.has(QUESTION):
            self.run.write_json(QUESTION, self.run.read_json(QUESTION) | {"folds": folds, "repeats": 1})
        self.folds, self.repeats, self.entries, self.outcomes = folds, 1, {}, {}

    # --- the candidates

    def enter(self, candidates: Sequence[Candidate]) -> None:
        """An entry for each, which is skipped as long as nothing else is known of it."""
        encoder = "Encoder" if self.embeddings is None else SHOWN.get(self.embeddings.encoder, self.embeddings.encoder)
        for candidate in candidates:
            title = (candidate.title[0].upper() + candidate.title[1:]).format(encoder=encoder)
            entry = Entry(candidate.name, title, self.words_of(candidate), candidate.cost)
            entry.can_be_recommended, entry.parts = candidate.kind != "counts", list(candidate.parts)
            entry.is_known_to_gain = candidate.is_known_to_gain and self.is_usual
            self.entries[candidate.name] = entry

    @property
    def has_names(self) -> bool:
        """Whether the labels are names, which an encoder can read."""
        return self.embeddings is not None and self.embeddings.names is not None

    @property
    def is_usual(self) -> bool:
        """Whether texts have one label and no candidate reads texts without: where fine-tuning was measured to gain."""
        return not (self.several or self.unlabelled)

    def words_of(self, candidate: Candidate) -> list[str]:
        """Overrides of the candidate's runs over this encoder."""
        return candidate.words_of(None if self.embeddings is None else self.embeddings.blocks)

    def is_finished(self, candidate: Candidate) -> bool:
        return self.entries[candidate.name].status == "finished"

    def best(self) -> Entry | None:
        """The finished candidate with the highest macro-F1 so far, for people who wait."""
        done = [entry for entry in self.entries.values() if entry.status == "finished" and entry.macro_f1 is not None]
        return max(done, key=lambda entry: entry.macro_f1 or 0.0, default=None)

    def say(self, line: str) -> None:
        """Print a line, with the best candidate so far."""
        best = self.best()
        more = "" if best is None else f" · best so far: {best.candidate}, macro-F1 {100 * (best.macro_f1 or 0):.1f}"
        self.clock.say(line + more)

    def say_why(self, candidate: Candidate) -> None:
        """Print why a candidate did not finish."""
        entry = self.entries[candidate.name]
        self.clock.say(f"{entry.status}: {entry.title}; {entry.reason}")

    # --- the outcomes of the folds

    def known(self, name: str, repeat: int, fold: int) -> FoldOutcome | None:
        """The outcome of a candidate's fold, of this start or an earlier one; None where there is none yet."""
        kept = self.outcomes.get(name, {}).get((repeat, fold)) or load_outcome(self._file(name, repeat, fold))
        if kept is None or self._is_older(self.by_name[name], kept):
            return None
        return kept

    def _is_older(self, candidate: Candidate, outcome: FoldOutcome) -> bool:
        """Whether it is of a version in which the candidate stood for another run, or some of its rows validated."""
        is_of_other = bool(outcome.run_id) and not outcome.run_id.startswith(f"{candidate.method}-")
        return is_of_other or (not candidate.validates and not len(outcome.logits))

    def keep(self, name: str, repeat: int, fold: int, outcome: FoldOutcome) -> None:
        """Remember the outcome of a candidate's fold."""
        self.outcomes.setdefault(name, {})[repeat, fold] = outcome

    def save(self, name: str, repeat: int, fold: int, outcome: FoldOutcome) -> None:
        """Remember it, in the folder too."""
        outcome.save(self._file(name, repeat, fold))
        self.keep(name, repeat, fold, outcome)

    def _file(self, name: str, repeat: int, fold: int) -> Path:
        return self.run.path / "folds" / f"{name}-{repeat}-{fold}.npz"

    def drawings_on_disk(self) -> set[int]:
        """Numbers of the drawings that a fold was saved of."""
        return {int(file.stem.split("-")[-2]) for file in (self.run.path / "folds").glob("*.npz")}

    def macro_f1(self, outcomes: Sequence[FoldOutcome]) -> float:
        """Over the rows of the folds."""
        labels = np.concatenate([self.labels[outcome.rows] for outcome in outcomes])
        answers = np.concatenate([outcome.answers for outcome in outcomes])
        return decision_metrics(labels, answers, self.num_classes)["macro_f1"]

    def has_enough(self, candidate: Candidate) -> bool:
        """Whether the folds of the first drawing that are there are enough to compare the candidate."""
        there = sum(self.known(candidate.name, 0, fold) is not None for fold in range(self.folds))
        return there >= enough_folds(candidate, self.folds, len(self.labels))

    def finish(self, candidate: Candidate) -> None:
        """All folds of a drawing are there, or enough of the first: figures of the candidate, and its table of
        out-of-fold predictions."""
        for fold in range(self.folds):  # of an earlier start too
            if outcome := self.known(candidate.name, 0, fold):
                self.keep(candidate.name, 0, fold, outcome)
        outcomes = self.outcomes[candidate.name]
        whole = {r for r, _ in outcomes if all((r, f) in outcomes for f in range(self.folds))}
        kept = {key: outcome for key, outcome in outcomes.items() if key[0] in (whole or {0})}
        if not candidate.validates:  # one drawing of the folds
            kept = dict(zip(kept, cross_calibrated(list(kept.values()), self.labels), strict=True))
        self._write_out_of_fold(candidate.name, kept)
        self._enter_figures(candidate, kept)
        if not whole:
            rows = sum(len(outcome.rows) for outcome in kept.values())
            which = f"{len(kept)} of {self.folds} folds, {rows:,} of {len(self.labels):,} rows"
            self.entries[candidate.name].reason = f"{which}: no time for the others"

    def _enter_figures(self, candidate: Candidate, kept: Mapping[tuple[int, int], FoldOutcome]) -> None:
        outcomes = list(kept.values())
        drawings = [[o for (repeat, _), o in kept.items() if repeat == number] for number in {r for r, _ in kept}]
        entry, fits = self.entries[candidate.name], [outcome.seconds_fit for outcome in outcomes]
        seconds = sum(outcome.seconds_predict for outcome in outcomes)
        encode = 0.0
        if self.embeddings is not None and candidate.kind == "embeddings":
            encode = len(self.labels) * self.embeddings.seconds_per_text
        entry.status, entry.reason = "finished", None
        entry.train_seconds = encode + float(np.mean(fits)) * self.folds / (self.folds - 1)
        entry.texts_per_second = sum(len(outcome.rows) for outcome in outcomes) / max(seconds, 1e-9)
        entry.size_mib = self._size(candidate)
        if candidate.validates:
            entry.validation_macro_f1 = float(np.mean([outcome.validation_macro_f1 for outcome in outcomes]))
        entry.run_ids = [outcome.run_id for outcome in outcomes if outcome.run_id]
        entry.macro_f1 = float(np.mean([self.macro_f1(of_drawing) for of_drawing in drawings]))

    def _size(self, candidate: Candidate) -> float:
        """MiB of the model."""
        has_datastore = candidate.votes or candidate.name == "neighbours"
        vectors = self.num_classes + (len(self.labels) if has_datastore else 0)
        if candidate.kind == "words":
            distinct = len({word for text in self.texts for word in text.lower().split()})
            return distinct * 4 * (self.num_classes + 1) / 2**20
        if candidate.kind == "counts" or self.embeddings is None:
            return 0.0
        width = self.embeddings.rows.shape[1]
        width += self.embeddings.counts.shape[1] if candidate.reads_words else 0
        return self.embeddings.size_mib + 4 * vectors * width / 2**20

    def recall(self, repeats: int) -> None:
        """What an earlier start, which compared all candidates, entered of them, and the outcomes of their folds."""
        self.repeats = repeats
        for kept in self.run.read_json("candidates.json"):
            entry = Entry(**kept)
            self.entries[entry.candidate] = entry
            for key in ((repeat, fold) for repeat in range(repeats) for fold in range(self.folds)):
                if entry.status == "finished" and (outcome := self.known(entry.candidate, *key)):
                    self.keep(entry.candidate, *key, outcome)

    # --- the files

    def _write_out_of_fold(self, name: str, kept: Mapping[tuple[int, int], FoldOutcome]) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        rows = np.concatenate([outcome.rows for outcome in kept.values()])
        probabilities = np.concatenate([outcome.probabilities for outcome in kept.values()])
        columns: dict[str, Any] = {
            "row": rows,
            "repeat": np.concatenate([np.full(len(o.rows), repeat) for (repeat, _), o in kept.items()]),
            "fold": np.concatenate([np.full(len(o.rows), fold) for (_, fold), o in kept.items()]),
            "label": self._column(self.labels[rows]),
        } | {f"p_{c}": probabilities[:, c] for c in range(self.num_classes)}
        if self.several:
            columns["answer"] = self._column(np.concatenate([outcome.answers for outcome in kept.values()]))
        with replacing(self.run.path / "out_of_fold" / f"{name}.parquet") as file:
            pq.write_table(pa.table(columns), file)

    def _column(self, labels: NDArray[np.integer]) -> Any:
        """Classes as they are, several labels as lists of their indices."""
        return [np.flatnonzero(row).tolist() for row in labels] if self.several else labels

    def write(self) -> None:
        """`candidates.json`, and the minutes used so far."""
        self.run.write_json("candidates.json", [asdict(entry) for entry in self.entries.values()])
        self.run.write_metrics(minutes={"asked": self.clock.minutes, "used": self.clock.used})
