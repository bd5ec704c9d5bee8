"""Candidates on the folds of one data set, within the minutes: cheap ones first, then those that train the encoder."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit
from threadpoolctl import threadpool_limits

from callbacks.time_limit import OutOfTime
from datamodules.labels import class_counts
from datamodules.splits import rank_in_class
from datamodules.texts.datamodule import TextDataModule
from engine.finished import load_module
from engine.plan import Plan
from lightning_modules.base import ClassifierModule
from lightning_modules.heads.row_space import MOST_ROWS
from storage.files import replacing
from storage.run_store import RunFolder, first_line
from tasks.auto import cheap, models
from tasks.auto.calibration import (
    AnyCalibration,
    calibrated,
    calibrated_labels,
    decision_metrics,
    decisions,
    uncalibrated,
)
from tasks.auto.candidates import Candidate, by_name
from tasks.auto.clock import Clock, minutes_of
from tasks.auto.embeddings import Embeddings
from tasks.auto.folds import (
    ONE_SPLIT_FROM,
    FoldOutcome,
    cheap_fold,
    cross_calibrated,
    each_fold,
    fitted,
    load_outcome,
    pooled_calibration,
)
from tasks.auto.plans import plan_of, protocol_words
from tasks.fit import trained_run
from tasks.predict import Encoded, classifier_predictor

FOLDS, FOLDS_OF_MANY = 5, 3
MANY_ROWS = 5000  # from which there are fewer folds
REPEATS, REPEATED_SHARE = 3, 0.2  # of cheap candidates, as far as they take no more than this share of the minutes
LEAST_STEPS, MOST_EPOCHS = 80, 15  # of training: more bring nothing on train rows of TREC
STEP_COST = 3.5  # of a text in a training step, in encodings of one
MOST_WRONG = 3  # times that a guess without a step may be too long; what is nearer is told from the first steps
START_SECONDS = 8.0  # of a training run, besides its steps
SECONDS_A_PRODUCT = 4e-10  # of one row, class and dimension in a step of a solver
WORD_COST = 20  # of a word, which lies apart from the next, in dimensions
STEPS_OF_WORDS, STEPS_OF_EMBEDDINGS = 20, 50  # of a solver for each row of a class, over all its settings: few rows
MOST_STEPS_OF_WORDS, MOST_STEPS_OF_EMBEDDINGS = 600, 2000  # are soon solved
INNER_SHARE = 0.2  # of a fold's train rows, on which training is judged
LEAST_VALIDATION_ROWS = 100  # seen before any candidate is dropped as worse: fewer say little
CURVE_SHARES = (0.25, 0.5, 0.75)
CURVES = ("logistic",)
UNSCALED = ("majority", "neighbours")  # candidates whose scores are shares of rows, and stay what they are
LEAST_SHARE = 1e-6
NO_UNLABELLED = "no texts without a label"


@dataclass
class Entry:
    """What `candidates.json` says of a candidate."""

    candidate: str
    title: str
    overrides: list[str]
    cost: int
    status: str = "skipped"
    reason: str | None = None
    stage_seconds: dict[str, float] = field(default_factory=dict)
    train_seconds: float | None = None
    texts_per_second: float | None = None
    size_mib: float | None = None
    validation_macro_f1: float | None = None
    macro_f1: float | None = None
    run_ids: list[str] = field(default_factory=list)
    can_be_recommended: bool = True


@dataclass(frozen=True)
class _Learned:
    """A candidate learned from rows: its run, or the module where it has none; texts to logits (N, C); what validation
    rows chose, None and not a number where there are none."""

    learned: RunFolder | ClassifierModule
    scores: Callable[[list[str]], tuple[NDArray[np.floating], Any]]  # logits come first
    calibration: AnyCalibration | None
    validation_macro_f1: float


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
        self.folds = min(most, len(set(texts)))
        if (run.path / "folds").exists() and run.has("question.json"):  # an earlier start chose
            self.folds = run.read_json("question.json").get("folds", self.folds)
        self.entries: dict[str, Entry] = {}
        self.outcomes: dict[str, dict[tuple[int, int], FoldOutcome]] = {}
        self.repeats = 1

    # --- what is tried

    def fit_folds(self, candidates: Sequence[Candidate]) -> None:
        """Fewer folds, where with these no candidate that trains the encoder could end in time, and with those one."""
        trained = [candidate for candidate in candidates if candidate.kind == "trained"]
        usual, fewer = self.folds, min(FOLDS_OF_MANY, self.folds)
        if self.embeddings is None or not trained or (self.run.path / "folds").exists():
            return
        for self.folds in (usual, fewer):
            runs = self.folds + self.folds / (self.folds - 1)
            if runs * min(self._foretold_seconds(candidate, 0) for candidate in trained) <= self.clock.left_with_fit:
                return
        self.folds = usual

    def compare(self, candidates: Sequence[Candidate]) -> None:
        """Try the candidates, cheapest first, and write what comes of it after each."""
        encoder = "encoder" if self.embeddings is None else self._encoder_name()
        for candidate in candidates:
            title = candidate.title.format(encoder=encoder)
            entry = Entry(candidate.name, title[0].upper() + title[1:], list(candidate.words), candidate.cost)
            entry.can_be_recommended = candidate.kind != "counts"
            self.entries[candidate.name] = entry
        untrained = [candidate for candidate in candidates if candidate.kind != "trained"]
        untrained.sort(key=self._fold_seconds)  # with very many classes a solver may leave no time for the others
        for number, candidate in enumerate(untrained, 1):
            self._say(f"{number} of {len(candidates)}: {self.entries[candidate.name].title}")
            if candidate.kind == "words":
                self._try_words(candidate)
            else:
                self._try_cheap(candidate)
            if self.entries[candidate.name].reason:
                self._say_why(candidate)
            self._write()
        cheap_ones = [candidate for candidate in untrained if candidate.kind != "words"]
        self._repeat(cheap_ones)
        self._learning_curve([c for c in cheap_ones if c.name in CURVES and self._is_finished(c)])
        self._halve([candidate for candidate in candidates if candidate.kind == "trained"])
        self._write()

    def _encoder_name(self) -> str:
        name = next((word.split("=", 1)[1] for word in self.words if word.startswith("encoder=")), "minilm")
        return {"minilm": "MiniLM"}.get(name, name)

    def _is_finished(self, candidate: Candidate) -> bool:
        return self.entries[candidate.name].status == "finished"

    def _path(self, candidate: Candidate) -> cheap.Path | cheap.Added | str:
        """The candidate's path of settings, or why it cannot be tried."""
        if candidate.kind == "counts":
            return cheap.majority
        if self.embeddings is None:
            return "no time to load and run the encoder"
        if candidate.reads_unlabelled and not self.unlabelled:
            return NO_UNLABELLED
        if candidate.name == "nearest_name":
            names = self.embeddings.names
            return "the labels are codes, or very many" if names is None else cheap.nearest_name(names)
        if candidate.name == "prototypes":
            return cheap.prototypes(self.embeddings.names)
        if candidate.name == "discriminant_unlabelled":
            return cheap.refined(self.embeddings.names, cheap.unit_rows(self.embeddings.unlabelled))
        if candidate.name == "words_unlabelled":
            others = cheap.TextRows(cheap.unit_rows(self.embeddings.unlabelled), self.embeddings.unlabelled_counts)
            return cheap.co_trained_views(self.embeddings.names, others)
        if candidate.name == "linear_words" and self.several:
            return cheap.stacked_labels(self.embeddings.names)
        if candidate.name == "linear_words":
            on_embeddings = (cheap.logistic, cheap.prototypes(self.embeddings.names))
            return cheap.Added((*(("embeddings", path) for path in on_embeddings), ("counts", cheap.words)))
        logistic = cheap.label_by_label if self.several else cheap.logistic
        return {"logistic": logistic, "neighbours": cheap.neighbours}[candidate.name]

    def _rows(self, candidate: Candidate) -> Any:
        """Embeddings, with token counts where they are read; without them, what a candidate of counts alone slices."""
        if self.embeddings is None:
            return np.empty((len(self.labels), 0))
        if candidate.reads_words:
            return cheap.TextRows(cheap.unit_rows(self.embeddings.rows), self.embeddings.counts)
        return self.embeddings.rows

    def _try_cheap(self, candidate: Candidate, repeat: int = 0) -> None:
        entry, path = self.entries[candidate.name], self._path(candidate)
        if isinstance(path, str):
            entry.reason = path
            return
        seconds_per_text = self.embeddings.seconds_per_text if candidate.kind == "embeddings" else 0.0  # type: ignore
        for fold, test in enumerate(each_fold(self.labels, list(self.texts), self.folds, repeat)):
            outcome = self._known(candidate.name, repeat, fold)
            if outcome is None:
                needed = self._fold_seconds(candidate) * (self.folds - fold)
                has_time = needed <= self.clock.left and self.clock.left > 0
                if not has_time and candidate.kind != "counts":  # those take no time
                    if repeat == 0:
                        entry.reason = f"{self.folds} folds take about {minutes_of(needed)}, no time is left for that"
                    return
                try:
                    outcome, _ = cheap_fold(
                        path, self._rows(candidate), self.labels, self.texts, test, self.num_classes,
                        candidate.name not in UNSCALED, seconds_per_text,
                    )  # fmt: skip
                except ValueError as error:
                    if repeat == 0:  # further drawings only add to it
                        entry.status, entry.reason = "failed", first_line(error)
                    return
                outcome.save(self._file(candidate.name, repeat, fold))
            self._keep(candidate.name, repeat, fold, outcome)
        self._finish(candidate)

    def _repeat(self, candidates: Sequence[Candidate]) -> None:
        """More drawings of the folds for what is cheap, so that the draw of the folds matters less."""
        done = [candidate for candidate in candidates if self._is_finished(candidate)]
        once = sum(o.seconds_fit + o.seconds_predict for c in done for o in self.outcomes[c.name].values())
        known = {int(file.stem.split("-")[-2]) for file in (self.run.path / "folds").glob("*.npz")}
        share = REPEATED_SHARE * 60 * self.clock.minutes
        self.repeats = max(min(REPEATS, 1 + int(share / max(once, 1e-3))), 1 + max(known, default=0))
        for repeat in range(1, self.repeats):
            if self.clock.left <= 0 and repeat not in known:
                return
            self._say(f"drawing {repeat + 1} of the folds, for what is cheap")
            for candidate in done:
                self._try_cheap(candidate, repeat)

    def _learning_curve(self, candidates: Sequence[Candidate]) -> None:
        """`learning_curve.csv`: macro-F1 and accuracy with shares of the train rows, on the folds of the first draw."""
        lines: list[tuple[Any, ...]] = []
        if self.run.has("learning_curve.csv"):
            return
        folds = each_fold(self.labels, list(self.texts), self.folds, 0)
        for candidate in candidates:
            path, rows = self._path(candidate), self._rows(candidate)
            assert not isinstance(path, str)
            once = sum(o.seconds_fit for (r, _), o in self.outcomes[candidate.name].items() if r == 0)
            if once * sum(CURVE_SHARES) > 0.2 * self.clock.left:
                continue
            self._say(f"learning curve of {self.entries[candidate.name].title}")
            for fold, test in enumerate(folds):
                train = np.setdiff1d(np.arange(len(self.labels)), test)
                for share in CURVE_SHARES:
                    part = self._part(train, share, np.random.default_rng([fold, 11]))
                    try:
                        model = fitted(path, rows[part], self.labels[part], self.texts[part].tolist(), self.num_classes)
                    except ValueError:  # too few different texts
                        continue
                    probabilities = model.calibration.probabilities(model.scorer(rows[test]))
                    answers = decisions(probabilities, model.calibration.thresholds)
                    lines.append((candidate.name, len(part), 0, fold, *self._figures(test, answers)))
                whole = self.outcomes[candidate.name][0, fold]
                figures = self._figures(whole.rows, whole.answers)
                lines.append((candidate.name, len(train), 0, fold, *figures))
        header = ("candidate", "rows", "repeat", "fold", "macro_f1", "micro_f1")
        if lines:
            self.run.write_csv("learning_curve.csv", lines, header)

    def _part(self, train: NDArray[np.int64], share: float, rng: np.random.Generator) -> NDArray[np.int64]:
        """A share of the rows, of one label each class by class; a larger share holds the smaller one."""
        labels = self.labels[train]
        if self.several:
            return np.sort(rng.permutation(train)[: math.ceil(share * len(train))])
        sizes = class_counts(labels, self.num_classes)
        return train[rank_in_class(labels, rng) < np.ceil(share * sizes)[labels]]

    def _figures(self, rows: NDArray[np.int64], answers: NDArray[np.integer]) -> tuple[float, float]:
        metrics = decision_metrics(self.labels[rows], answers, self.num_classes)
        return metrics["macro_f1"], metrics["micro_f1"]

    def _try_words(self, candidate: Candidate) -> None:
        """Every fold is solved anew, words and all; that takes seconds."""
        for fold in range(self.folds):
            if self._known(candidate.name, 0, fold) is None:
                needed = self._fold_seconds(candidate) * (self.folds - fold)
                if needed > self.clock.left or self.clock.left <= 0:
                    entry = self.entries[candidate.name]
                    entry.reason = f"{self.folds} folds take about {minutes_of(needed)}, no time is left for that"
                    return
            if not self._read_run(candidate, fold, []):
                return
        self._finish(candidate)

    # --- training: every candidate has the same folds; twice the worse half goes, once enough rows were seen

    def _halve(self, candidates: Sequence[Candidate]) -> None:
        if self.embeddings is None:
            for candidate in candidates:
                self.entries[candidate.name].reason = "no time to load and run the encoder"
            return
        alive, halvings = list(candidates), 0
        for fold in range(self.folds):
            for candidate in list(alive):
                if not self._try_trained(candidate, fold):
                    alive.remove(candidate)
                    self._say_why(candidate)
                self._write()
            tried = list(alive)
            if halvings < 2 and len(alive) > 1 and fold + 1 < self.folds and self._says_much(fold):
                halvings += 1
                alive = self._better_half(alive, fold)
            alive = self._those_that_can_end(alive, fold)
            for candidate in tried:
                if candidate not in alive:
                    self._say_why(candidate)
        for candidate in alive:
            self._finish(candidate)

    def _say_why(self, candidate: Candidate) -> None:
        entry = self.entries[candidate.name]
        self.clock.say(f"{entry.status}: {entry.title}; {entry.reason}")

    def _so_far(self, candidates: Sequence[Candidate]) -> dict[str, float]:
        """Macro-F1 of each by name, over the folds so far: on inner validation rows; where one of the candidates has
        none, on the rows of the folds themselves, the same for all."""
        figures = {}
        for candidate in candidates:
            outcomes = [o for (repeat, _), o in self.outcomes[candidate.name].items() if repeat == 0]
            if all(c.validates for c in candidates):
                figures[candidate.name] = float(np.mean([outcome.validation_macro_f1 for outcome in outcomes]))
            else:
                figures[candidate.name] = self._macro_f1(cross_calibrated(outcomes, self.labels))
        return figures

    def _macro_f1(self, outcomes: Sequence[FoldOutcome]) -> float:
        """Over the rows of the folds."""
        labels = np.concatenate([self.labels[outcome.rows] for outcome in outcomes])
        answers = np.concatenate([outcome.answers for outcome in outcomes])
        return decision_metrics(labels, answers, self.num_classes)["macro_f1"]

    def _better_half(self, alive: list[Candidate], fold: int) -> list[Candidate]:
        figures = self._so_far(alive)
        order = sorted(alive, key=lambda candidate: figures[candidate.name], reverse=True)
        keep = order[: math.ceil(len(order) / 2)]
        where = "on validation rows" if all(c.validates for c in alive) else "on the rows held out"
        for candidate in order[len(keep) :]:
            own, best = figures[candidate.name], figures[order[0].name]
            entry = self.entries[candidate.name]
            entry.status = "dropped"
            entry.reason = (
                f"behind {where} after {fold + 1} of {self.folds} folds: macro-F1 {100 * own:.1f}, "
                f"the best of those trained {100 * best:.1f}"
            )
        return [candidate for candidate in alive if candidate in keep]

    def _says_much(self, fold: int) -> bool:
        """Whether the inner validation rows of the folds so far are enough to tell which candidate is worse."""
        rows = INNER_SHARE * len(self.labels) * (self.folds - 1) / self.folds * (fold + 1)
        return rows >= LEAST_VALIDATION_ROWS

    def _those_that_can_end(self, alive: list[Candidate], fold: int) -> list[Candidate]:
        """Without those whose remaining folds do not fit into the time: the worst go first, or, where too few rows tell
        which that is, the dearest."""
        says_much = self._says_much(fold)

        def needed(candidate: Candidate) -> float:
            unknown = [f for f in range(fold + 1, self.folds) if self._known(candidate.name, 0, f) is None]
            return len(unknown) * self._longest(candidate)

        alive = list(alive)
        while alive:
            refit = max(map(self._longest, alive)) * self.folds / (self.folds - 1)
            together = sum(map(needed, alive))
            if together == 0 or together + refit <= self.clock.left_with_fit:
                break
            figures = self._so_far(alive)
            worst = min(alive, key=lambda c: figures[c.name]) if says_much else max(alive, key=self._longest)
            alive.remove(worst)
            more = math.ceil((together + refit - self.clock.left_with_fit) / 60)
            entry = self.entries[worst.name]
            entry.reason = f"its other folds do not fit into the time; about {more} more minutes would do"
        return alive

    def _longest(self, candidate: Candidate) -> float:
        """Seconds of its longest fold so far."""
        return max((o.seconds_fit for o in self.outcomes.get(candidate.name, {}).values()), default=0.0)

    def _run_words(self, candidate: Candidate, fold: int | None) -> list[str]:
        """Overrides of the run of a fold, or of all rows."""
        if candidate.kind == "words":
            words = [word for word in self.words if not word.startswith("encoder")]
            return [*words, *candidate.words, *protocol_words(candidate.name, fold, self.folds), "logger=null"]
        rows = len(self.labels) if fold is None else len(self.labels) * (self.folds - 1) // self.folds
        batch = 16 if rows < 2000 else 32
        steps = max(1, int(0.8 * rows) // batch)
        epochs = max(3, min(MOST_EPOCHS, math.ceil(LEAST_STEPS / steps)))
        schedule = [f"trainer.max_epochs={epochs}", f"sampler.batch_size={batch}"]
        has_schedule = any(word.startswith("trainer.max_epochs=") for word in candidate.words)
        return [
            *self.words,
            *(self.unlabelled if candidate.reads_unlabelled else []),
            *protocol_words(candidate.name, fold, self.folds),
            *candidate.words,
            *([] if has_schedule else schedule),
            "callbacks.progress=null",
            "logger=null",
        ]

    def _fold_seconds(self, candidate: Candidate) -> float:
        """Seconds of a fold without training: the shortest so far, or foretold at the pace of what was solved before.

        The shortest, for the first one loads and caches what the others find.
        """
        shortest = {
            name: min(outcome.seconds_fit for outcome in outcomes.values()) for name, outcomes in self.outcomes.items()
        }
        if candidate.name in shortest:
            return shortest[candidate.name]
        foretold = {name: self._foretold_solving(self.by_name[name]) for name in shortest}
        paces = [shortest[name] / seconds for name, seconds in foretold.items() if seconds]
        return self._foretold_solving(candidate) * (float(np.median(paces)) if paces else 1.0)

    def _foretold_solving(self, candidate: Candidate) -> float:
        """Seconds of a fold, told from the size of what is solved; 0 where nothing is."""
        rows = len(self.labels) / self.num_classes  # of a class
        product = SECONDS_A_PRODUCT * len(self.labels) * self.num_classes  # of all rows and one dimension
        words = WORD_COST * sum(len(text.split()) for text in self.texts) / len(self.texts)
        if candidate.kind == "words":
            return min(STEPS_OF_WORDS * rows, MOST_STEPS_OF_WORDS) * product * words
        if self.embeddings is None or candidate.name not in ("logistic", "linear_words"):
            return 0.0
        steps = min(STEPS_OF_EMBEDDINGS * rows, MOST_STEPS_OF_EMBEDDINGS)
        steps /= 2 if len(self.labels) >= ONE_SPLIT_FROM else 1  # no inner folds
        dimensions = self.embeddings.rows.shape[1]
        if candidate.name == "linear_words":
            dimensions += min(words, len(self.labels)) if len(self.labels) <= MOST_ROWS else words
        return steps * product * dimensions

    def _expected_seconds(self, candidate: Candidate, fold: int) -> float:
        """Of one fold: the longest so far, or what its steps cost at the pace of the others that were trained."""
        if known := self._longest(candidate):
            return known
        paces = [
            self._longest(other) / self._foretold_seconds(other, fold)
            for other in map(self.by_name.__getitem__, self.outcomes)
            if other.kind == "trained"
        ]
        return self._foretold_seconds(candidate, fold) * (float(np.median(paces)) if paces else 1.0)

    def _foretold_seconds(self, candidate: Candidate, fold: int) -> float:
        """Of one fold, told from the encoder's speed."""
        assert self.embeddings is not None
        words = self._run_words(candidate, fold)
        epochs = next(int(word.split("=")[1]) for word in words if word.startswith("trainer.max_epochs="))
        rows = (1 - INNER_SHARE if candidate.validates else 1) * len(self.labels) * (self.folds - 1) / self.folds
        if candidate.reads_unlabelled:
            rows += len(self.embeddings.unlabelled)
        views = 2 if candidate.name in ("sharprecl", "scl_ce") else 1
        half = 0.5 if "encoder.train=top_layers" in candidate.words else 1.0
        return START_SECONDS + STEP_COST * half * views * epochs * rows * self.embeddings.seconds_per_text

    def _try_trained(self, candidate: Candidate, fold: int) -> bool:
        """Train and read one fold; False where it cannot end or fails, the entry says why."""
        if self._known(candidate.name, 0, fold) is not None:
            return self._read_run(candidate, fold, [])
        if candidate.reads_unlabelled and not self.unlabelled:
            self.entries[candidate.name].reason = NO_UNLABELLED
            return False
        unknown = sum(self._known(candidate.name, 0, f) is None for f in range(self.folds))
        runs = unknown + self.folds / (self.folds - 1)  # and the last fit, on all rows
        allowed, expected = self.clock.left_with_fit / runs, self._expected_seconds(candidate, fold)
        entry = self.entries[candidate.name]
        if expected > MOST_WRONG * allowed:
            left = minutes_of(max(self.clock.left, 0))
            entry.reason = f"all folds take about {minutes_of(expected * runs)}, {left} are left"
            return False
        self._say(f"{entry.title}, fold {fold + 1} of {self.folds}")
        node = "+callbacks.time_limit"
        limit = [f"{node}._target_=callbacks.time_limit.TimeLimit", f"{node}.seconds={max(allowed, 1.0):.1f}"]
        try:
            if not self._read_run(candidate, fold, limit):
                return False
        except OutOfTime as error:
            whole = minutes_of((error.seconds + START_SECONDS) * runs)
            entry.reason = f"all folds would take about {whole}, told from its first steps"
            return False
        self.clock.keep(self._longest(candidate) * self.folds / (self.folds - 1))
        return True

    def _read_run(self, candidate: Candidate, fold: int, limit: Sequence[str]) -> bool:
        """The outcome of a fold, from its file or by the run; False where that fails, the entry says why."""
        outcome = self._known(candidate.name, 0, fold)
        if outcome is None:
            try:
                outcome = self._run_outcome(candidate, plan_of([*self._run_words(candidate, fold), *limit]))
            except OutOfTime:
                raise
            except (ValueError, RuntimeError) as error:
                entry = self.entries[candidate.name]
                entry.status, entry.reason = "failed", first_line(error)
                return False
            outcome.save(self._file(candidate.name, 0, fold))
        self._keep(candidate.name, 0, fold, outcome)
        return True

    def _run_outcome(self, candidate: Candidate, plan: Plan) -> FoldOutcome:
        started = time.perf_counter()
        datamodule = plan.datamodule(plan.corpus())
        model = self._learned(candidate, plan, datamodule)
        ready = time.perf_counter()
        test, _ = model.scores(datamodule.texts("test"))
        seconds = time.perf_counter() - ready
        spent = ready - started
        figures: dict[str, Any] = {}
        if isinstance(model.learned, RunFolder):
            metrics = model.learned.read_metrics()
            spent = max(spent, metrics["seconds/total"])
            figures = {"run_id": model.learned.id, "epochs": metrics["epochs"]}
        calibration = model.calibration
        if calibration is None:
            figures["logits"], calibration = test, uncalibrated(self.num_classes)
        return FoldOutcome(
            datamodule.indices["test"],
            calibration.probabilities(test),
            model.validation_macro_f1,
            spent,
            seconds,
            thresholds=calibration.thresholds,
            **figures,
        )

    def _learned(self, candidate: Candidate, plan: Plan, datamodule: TextDataModule) -> _Learned:
        """The candidate learned from the train rows of a plan, then calibrated on its validation rows, if any."""
        learned: RunFolder | ClassifierModule
        scores: Callable[[list[str]], Any]
        if candidate.kind == "words":  # seconds of work are not worth a run of their own
            learned = self._solved(plan, datamodule)
            scores = Encoded(learned, plan)
        else:
            learned = trained_run(plan)
            scores = _voted(learned, plan) if candidate.votes else Encoded(load_module(learned, plan)[0], plan)
        if not candidate.validates:
            return _Learned(learned, scores, None, math.nan)
        (val, _), labels = scores(datamodule.texts("val")), datamodule.labels["val"].astype(np.int64)
        calibration: AnyCalibration
        if candidate.votes:
            calibration = calibrated_labels(val, labels, rescale=False)
        else:
            calibration = calibrated(val, labels, datamodule.class_counts.numpy())
        answers = decisions(calibration.probabilities(val), calibration.thresholds)
        figure = decision_metrics(labels, answers, self.num_classes)["macro_f1"]
        return _Learned(learned, scores, calibration, figure)

    @staticmethod
    def _solved(plan: Plan, datamodule: TextDataModule) -> ClassifierModule:
        module = plan.module(datamodule).eval()
        with threadpool_limits(1):
            module.solve({split: datamodule.token_rows(split) for split in ("train", "val")})
        return module

    # --- what is kept

    def _file(self, name: str, repeat: int, fold: int) -> Path:
        return self.run.path / "folds" / f"{name}-{repeat}-{fold}.npz"

    def _known(self, name: str, repeat: int, fold: int) -> FoldOutcome | None:
        kept = self.outcomes.get(name, {}).get((repeat, fold)) or load_outcome(self._file(name, repeat, fold))
        is_older = kept is not None and not self.by_name[name].validates and not len(kept.logits)  # some rows validated
        return None if is_older else kept

    def _keep(self, name: str, repeat: int, fold: int, outcome: FoldOutcome) -> None:
        self.outcomes.setdefault(name, {})[repeat, fold] = outcome

    def _finish(self, candidate: Candidate) -> None:
        """All folds of a drawing are there: figures of the candidate, and its table of out-of-fold predictions."""
        entry, outcomes = self.entries[candidate.name], self.outcomes[candidate.name]
        whole = [r for r in range(REPEATS + 1) if all((r, f) in outcomes for f in range(self.folds))]
        kept = {key: outcome for key, outcome in outcomes.items() if key[0] in whole}
        if not candidate.validates:  # one drawing of the folds
            kept = dict(zip(kept, cross_calibrated(list(kept.values()), self.labels), strict=True))
        self._write_out_of_fold(candidate.name, kept)
        fits = [outcome.seconds_fit for outcome in kept.values()]
        predicted = sum(len(outcome.rows) for outcome in kept.values())
        seconds = sum(outcome.seconds_predict for outcome in kept.values())
        encode = 0.0
        if self.embeddings is not None and candidate.kind == "embeddings":
            encode = len(self.labels) * self.embeddings.seconds_per_text
        entry.status, entry.reason = "finished", None
        entry.stage_seconds = {"encode": encode, "fit": sum(fits), "predict": seconds}
        entry.train_seconds = encode + float(np.mean(fits)) * self.folds / (self.folds - 1)
        entry.texts_per_second = predicted / max(seconds, 1e-9)
        entry.size_mib = self._size(candidate)
        if candidate.validates:
            entry.validation_macro_f1 = float(np.mean([outcome.validation_macro_f1 for outcome in kept.values()]))
        entry.run_ids = [outcome.run_id for outcome in kept.values() if outcome.run_id]
        entry.macro_f1 = self._macro_f1(list(kept.values()))

    def _size(self, candidate: Candidate) -> float:
        numbers = len(self.labels) if candidate.name == "neighbours" else self.num_classes
        if candidate.kind == "words":
            distinct = len({word for text in self.texts for word in text.lower().split()})
            return distinct * 4 * (self.num_classes + 1) / 2**20
        if candidate.kind == "counts" or self.embeddings is None:
            return 0.0
        width = self.embeddings.rows.shape[1]
        width += self.embeddings.counts.shape[1] if candidate.reads_words else 0
        return self.embeddings.size_mib + 4 * numbers * width / 2**20

    def _write_out_of_fold(self, name: str, kept: dict[tuple[int, int], FoldOutcome]) -> None:
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

    def _write(self) -> None:
        entries = []
        for entry in self.entries.values():
            plain = asdict(entry)
            plain["stage seconds"] = plain.pop("stage_seconds")
            entries.append(plain)
        self.run.write_json("candidates.json", entries)
        self.run.write_metrics(minutes={"asked": self.clock.minutes, "used": self.clock.used})

    def best(self) -> Entry | None:
        """The finished candidate with the highest macro-F1 so far, for people who wait."""
        done = [entry for entry in self.entries.values() if entry.status == "finished" and entry.macro_f1 is not None]
        return max(done, key=lambda entry: entry.macro_f1 or 0.0, default=None)

    def _say(self, line: str) -> None:
        best = self.best()
        more = "" if best is None else f" · best so far: {best.candidate}, macro-F1 {100 * (best.macro_f1 or 0):.1f}"
        self.clock.say(line + more)

    # --- the model

    def refit(self, candidate: Candidate, more: dict[str, Any]) -> None:
        """`model/`: the candidate on all rows, calibrated; `more` goes into its metrics."""
        run = RunFolder(self.run.path / "model")
        place = (self.label_names, class_counts(self.labels, self.num_classes))
        if candidate.kind in ("trained", "words"):
            self._refit_run(candidate, run, place, more)
            return
        path = self._path(candidate)
        assert not isinstance(path, str)
        rows, texts = self._rows(candidate), self.texts.tolist()
        model = fitted(path, rows, self.labels, texts, self.num_classes, candidate.name not in UNSCALED)
        plan = plan_of([*self.words, *self._frozen_words(candidate), "logger=null"])
        scorer: Any = model.scorer
        if candidate.name == "neighbours":
            models.write_neighbours(run, plan, *place, scorer, texts, model.calibration, more)
        elif candidate.reads_words:
            models.write_linear_words(run, plan, *place, scorer, model.calibration, more)
        else:
            models.write_linear(run, plan, *place, scorer, model.calibration, more)

    def _refit_run(self, candidate: Candidate, run: RunFolder, place: tuple[list[str], NDArray], more: dict) -> None:
        """The run of all rows. It is calibrated as those of the folds were, on validation rows of its own: how sure
        scores are differs from run to run, and what suits those of the folds need not suit its own. Where all its rows
        train, what the folds say of rows that they had not seen has to do."""
        plan = plan_of(self._run_words(candidate, None))
        model = self._learned(candidate, plan, plan.datamodule(plan.corpus()))
        calibration = model.calibration
        if calibration is None:
            calibration = pooled_calibration(list(self.outcomes[candidate.name].values()), self.labels, place[1])
        if not isinstance(model.learned, RunFolder):
            models.write_module(run, plan, model.learned, *place, calibration, more)
            return
        module = load_module(model.learned, plan)[0]  # scoring has changed the one that it was done by
        if candidate.votes:
            models.write_voting_module(run, plan, module, *place, model.learned, calibration, more)
        else:
            models.write_module(run, plan, module, *place, calibration, more)

    @staticmethod
    def _frozen_words(candidate: Candidate) -> list[str]:
        return [*candidate.words, *protocol_words(candidate.name, None)]


def _voted(run: RunFolder, plan: Plan) -> Callable[[list[str]], tuple[NDArray[np.floating], None]]:
    """Logits (N, C) of what a model and its neighbours say together, each label by itself."""
    predictor = classifier_predictor(run, plan, explain=False)
    return lambda texts: (logit(np.clip(predictor.scores(texts)[0], LEAST_SHARE, 1 - LEAST_SHARE)), None)
