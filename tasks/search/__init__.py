"""Search for good settings with Optuna: each trial a run of the run store, judged on validation, pruned early.

python run.py search=optuna method=sharprecl dataset=ohsumed search.trials=30
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from omegaconf import DictConfig

from engine.identity import run_id
from engine.overrides import without_group
from engine.plan import Plan
from engine.unread import is_solved
from engine.validation import ConfigError
from launching.sweep import run_jobs
from reporting.sweep_figure import trials_figure
from reporting.tables import MISSING, SweepJob, Table, percent
from storage.command_words import shell_line
from storage.files import write_text
from storage.run_store import COMMAND, RunFolder
from tasks.search.halving import (
    WITHOUT_TEST,
    Halving,
    check_key,
    check_range,
    epoch_values,
    halve,
    try_ends,
    with_settings,
    words,
)

if TYPE_CHECKING:  # an extra, which successive halving goes without
    import optuna
    from optuna.trial import FrozenTrial, Trial

VALIDATED = ("clean", "few_shot", "kfold")  # protocols with rows that choose and are not test
DIGITS = 4  # significant ones of a drawn number, so that a trial's command can be typed


class Search:
    """What to search for and how long.

    Args:
        space: key of the config -> {low, high, log} or {choices}.
        trials: runs in all, over all starts of the same line.
        n_jobs: trials at a time.
        metric: its best value over epochs judges a trial. Validation only: a search never reads test.
        warmup_epochs: epochs before which no trial is pruned.
        startup_trials: trials drawn at random, before which none is pruned.
        sampler_seed: of Optuna's sampler.
    """

    def __init__(
        self,
        space: Mapping[str, Mapping[str, Any]],
        trials: Annotated[int, ">= 1"] = 30,
        n_jobs: Annotated[int, ">= 1"] = 1,
        metric: Literal["val/macro_f1", "val/accuracy"] = "val/macro_f1",
        warmup_epochs: Annotated[int, ">= 0"] = 1,
        startup_trials: Annotated[int, ">= 1"] = 5,
        sampler_seed: Annotated[int, ">= 0"] = 0,
    ) -> None:
        self.space, self.trials, self.n_jobs, self.metric = dict(space), trials, n_jobs, metric
        self.warmup_epochs, self.startup_trials, self.sampler_seed = warmup_epochs, startup_trials, sampler_seed
        if not self.space:
            raise ConfigError("search.space: found nothing; allowed: key: {low, high, log} or key: {choices}")
        for key, range_ in self.space.items():
            check_range(key, range_)

    def draw(self, trial: Trial) -> dict[str, Any]:
        """Values of a trial by key."""
        return {key: self._draw(trial, key, range_) for key, range_ in self.space.items()}

    def _draw(self, trial: Trial, key: str, range_: Mapping[str, Any]) -> Any:
        if choices := range_.get("choices"):
            return trial.suggest_categorical(key, list(choices))
        low, high, log = range_["low"], range_["high"], bool(range_.get("log"))
        if isinstance(low, int) and isinstance(high, int):
            return trial.suggest_int(key, low, high, log=log)
        return float(f"{trial.suggest_float(key, low, high, log=log):.{DIGITS}g}")


def search(config: DictConfig, overrides: Sequence[str]) -> Path:
    """Run the trials that are still missing; the folder holds the study, its table and figure, and the best line."""
    from hydra.utils import instantiate

    plan = Plan.make(config, overrides)
    options: Search | Halving = instantiate(config.search, _convert_="all")
    if any(word.startswith("protocol.read_test=") for word in overrides):
        raise ConfigError("protocol.read_test: a search never reads test; allowed with search: leave it out")
    if plan.plain.get("active"):
        raise ConfigError(f"active: found {plan.plain['active']['name']}, whose curve is drawn by test rows; allowed "
                          "with search: null")  # fmt: skip
    plan.datamodule(plan.corpus())  # what every trial would refuse is said once
    if isinstance(options, Halving):
        return halve(plan, overrides, options)
    if (protocol := plan.plain["protocol"]["name"]) not in VALIDATED:
        raise ConfigError(f"protocol: found {protocol}; allowed with search: {', '.join(VALIDATED)}")
    if protocol == "kfold" and not (fraction := plan.plain["protocol"]["val_fraction"]):
        raise ConfigError(f"protocol.val_fraction: found {fraction}; allowed with search: 0 < val_fraction < 1")
    _check_space(config, plan, options, overrides)
    base = without_group(overrides, "search")
    folder = Path(config.paths.runs) / "searches" / _name(plan, options)
    inputs = plan.inputs()
    with RunFolder(folder).lock(wait=False):  # a second search would take this one's trials for stopped ones
        study = open_study(folder, options)
        while (missing := options.trials - len(ended_trials(study))) > 0:
            batch = [RunningTrial(study.ask(), options, config, inputs) for _ in range(min(missing, options.n_jobs))]
            if not _run_batch(study, batch, base, folder, options):
                raise KeyboardInterrupt
        return report(study, options, base, folder)


def _check_space(config: DictConfig, plan: Plan, options: Search, overrides: Sequence[str]) -> None:
    """Raises ConfigError: a key that this run has not or does not read, or an end of a range that it does not take."""
    if not plan.trains or is_solved(plan.plain):
        raise ConfigError(f"search: method={config.method.name} is not trained here; allowed: a method that is trained")
    for key in options.space:
        check_key(config, key)
        try_ends(config, key, options.space, overrides)


def _name(plan: Plan, options: Search) -> str:
    """Folder of a search: of the run that it starts from, and of its space."""
    asked = [options.space, options.metric, *([options.sampler_seed] if options.sampler_seed else [])]
    digest = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:6]
    return f"{run_id(plan.plain, plan.inputs())}-{digest}"


def open_study(folder: Path, options: Search) -> optuna.Study:
    """The study of a folder, new or as it was left; trials that were under way are put in line again."""
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend
    from optuna.trial import Trial, TrialState

    folder.mkdir(parents=True, exist_ok=True)
    optuna.logging.set_verbosity(logging.WARNING)
    journal = folder / "study.log"
    study = optuna.create_study(
        study_name="search",
        storage=JournalStorage(JournalFileBackend(str(journal))),
        direction="maximize",
        load_if_exists=True,
        pruner=optuna.pruners.MedianPruner(options.startup_trials, options.warmup_epochs),
    )
    seed = options.sampler_seed + len(study.trials)  # a resumed search goes on drawing, it does not begin again
    study.sampler = optuna.samplers.TPESampler(n_startup_trials=options.startup_trials, seed=seed)
    for trial in study.get_trials(states=(TrialState.RUNNING,)):
        study.enqueue_trial(trial.params)
        Trial(study, trial._trial_id).set_user_attr("interrupted", True)
        study.tell(trial.number, state=TrialState.FAIL)
    return study


class RunningTrial:
    """A trial under way: its settings, its run folder, and how many epochs the study knows."""

    def __init__(self, trial: Trial, options: Search, config: DictConfig, inputs: Mapping[str, str]) -> None:
        self.trial, self.metric = trial, options.metric
        self.settings = options.draw(trial)
        self.run = RunFolder(Path(config.paths.runs) / run_id(with_settings(config, self.settings), inputs))
        self.num_reported = 0
        self.changed = 0.0
        self.pruned = False

    @property
    def overrides(self) -> list[str]:
        return words({**self.settings, **WITHOUT_TEST})

    def values(self) -> list[float]:
        """The metric of each epoch so far."""
        return epoch_values(self.run, self.metric)

    def should_stop(self) -> bool:
        """Tell the study of new epochs; whether it gives the trial up."""
        file = self.run.path / "history.csv"
        if self.pruned or not file.exists() or file.stat().st_mtime == self.changed:
            return False
        self.changed = file.stat().st_mtime
        for epoch, value in list(enumerate(self.values()))[self.num_reported :]:
            self.trial.report(value, epoch)
            self.num_reported = epoch + 1
        self.pruned = self.run.status == "running" and self.trial.should_prune()
        return self.pruned


def _run_batch(
    study: optuna.Study, batch: Sequence[RunningTrial], base: Sequence[str], folder: Path, options: Search
) -> bool:
    """Run trials side by side and tell the study how they ended; False where the user stopped them."""
    first = batch[0].trial.number
    outcomes = run_jobs(
        base,
        [running.overrides for running in batch],
        folder,
        options.n_jobs,
        first=first,
        should_stop=lambda number: batch[number - first].should_stop(),
        shown=options.metric,
    )
    for running, outcome in zip(batch, outcomes, strict=True):
        if not _report_result(study, running, outcome):
            return False
    return True


def _report_result(study: optuna.Study, running: RunningTrial, outcome: SweepJob) -> bool:
    from optuna.trial import TrialState

    values = running.values()
    running.trial.set_user_attr("run", running.run.id)
    running.trial.set_user_attr("error", "" if running.pruned else outcome.error)
    if outcome.status == "finished" and values:
        running.should_stop()
        study.tell(running.trial, max(values))
    elif running.pruned:
        study.tell(running.trial, state=TrialState.PRUNED)
    elif outcome.status in ("interrupted", "not started"):
        return False  # stays under way: the next start puts it in line again
    else:
        study.tell(running.trial, state=TrialState.FAIL)
    return True


def ended_trials(study: optuna.Study) -> list[FrozenTrial]:
    """Trials with an outcome; one that was stopped from outside has none."""
    ended = (trial for trial in study.get_trials() if trial.state.is_finished())
    return [trial for trial in ended if not trial.user_attrs.get("interrupted")]


def report(study: optuna.Study, options: Search, base: Sequence[str], folder: Path) -> Path:
    """Print and keep the table of all trials, their figure, and the best command line."""
    trials = ended_trials(study)
    best = max((t for t in trials if t.value is not None), key=lambda trial: trial.value or 0.0, default=None)
    table = _table(trials, options)
    write_text(folder / "trials.md", table.markdown())
    write_text(folder / "trials.csv", table.csv())
    points = [(trial.params, trial.value) for trial in trials if trial.value is not None]
    trials_figure(points, options.metric, folder / "trials")
    table.show()
    if best is not None:
        settings = words({key: _rounded(value) for key, value in best.params.items()})
        line = f"{COMMAND} {shell_line([*base, *settings])}"
        write_text(folder / "best.txt", line + "\n")
        print(f"\nbest {options.metric} {percent(best.value)}: {line}")
    return folder


def _table(trials: Sequence[FrozenTrial], options: Search) -> Table:
    rows = tuple(
        (
            str(trial.number),
            *(str(_rounded(trial.params.get(key, MISSING))) for key in options.space),
            trial.state.name.lower(),
            percent(trial.value if trial.value is not None else _best_intermediate(trial)),
            str(len(trial.intermediate_values)),
            trial.user_attrs.get("error") or trial.user_attrs.get("run", ""),
        )
        for trial in sorted(trials, key=lambda trial: (trial.value is None, -(trial.value or 0.0)))
    )
    header = ("trial", *options.space, "state", options.metric, "epochs", "run or error")
    return Table(f"{len(trials)} trials, best first; figures in %", header, rows)


def _best_intermediate(trial: FrozenTrial) -> float | None:
    return max(trial.intermediate_values.values(), default=None)


def _rounded(value: Any) -> Any:
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value
