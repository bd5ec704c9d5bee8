"""Successive halving: the same budget and space for every method, judged on validation, frozen for the pair.

python run.py search=halving method=sharprecl dataset=ohsumed search.freeze=true
"""

from __future__ import annotations

import copy
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from omegaconf import DictConfig, OmegaConf

from engine.allowed_targets import CONF
from engine.environment import ENVIRONMENT
from engine.identity import run_id
from engine.overrides import without_group
from engine.plan import Plan
from engine.unread import refuse_unread, unread
from engine.validation import ConfigError
from launching.sweep import run_jobs
from reporting.tables import MISSING, Table, percent
from storage.command_words import shell_line, value_word
from storage.errors import short
from storage.files import write_text
from storage.records import is_of_changed_code
from storage.run_store import COMMAND, RunFolder

MOST_OF_THE_METHOD = 2  # parameters of its own that a method may search beside the shared space
TUNING_SEEDS = 100  # and above: no evaluation seed
DIGITS = 3  # significant ones of a drawn number
PLACES = ("paths.", "logger", "rival", "trainer.num_threads")  # words that change no run
ANOTHER_SPACE = "allowed: another space, ~search.space '+search.space={KEY:{low:1,high:2}}'"
WITHOUT_TEST = {"protocol.read_test": False}  # of every trial of a search
Settings = Mapping[str, Any]


class Halving:
    """How much is searched; the same for every method.

    Trial 0 is the method as it stands, the others are drawn. All train a share of their epochs, half of them go on, and
    so forth; ``finalists`` train to their end, and again on two more seeds. The best mean over the three seeds wins.
    Source: Jamieson and Talwalkar, AISTATS 2016.

    Args:
        space: key of the config -> {low, high, log} or {choices}; the same for every method.
        own: the same for parameters of the method, two at the most.
        trials: settings in all.
        finalists: of them that train to their end and on two more seeds.
        shares: of a trial's epochs, rounded up to whole ones, after which half of the trials stop; ascending, the last
            one 1.
        n_jobs: runs at a time.
        metric: its best value over epochs judges a run. Validation only.
        first_seed: of the trials; the finalists' other seeds are the two after it.
        sampler_seed: draws the settings.
        freeze: write what won into conf/method_dataset, with the record of the search beside it.
    """

    def __init__(
        self,
        space: Mapping[str, Mapping[str, Any]],
        own: Mapping[str, Mapping[str, Any]] | None = None,
        trials: Annotated[int, ">= 2"] = 12,
        finalists: Annotated[int, ">= 1"] = 4,
        shares: Sequence[Annotated[float, "> 0", "<= 1"]] = (0.34, 0.67, 1.0),
        n_jobs: Annotated[int, ">= 1"] = 1,
        metric: Literal["val/macro_f1", "val/micro_f1", "val/accuracy"] = "val/macro_f1",
        first_seed: Annotated[int, ">= 100"] = TUNING_SEEDS,
        sampler_seed: Annotated[int, ">= 0"] = 0,
        freeze: bool = False,
    ) -> None:
        if len(own or {}) > MOST_OF_THE_METHOD:
            raise ConfigError(f"search.own: found {len(own or {})} keys; allowed: {MOST_OF_THE_METHOD} at the most")
        if list(shares) != sorted(shares) or not shares or shares[-1] != 1:
            raise ConfigError(f"search.shares: found {list(shares)}; allowed: ascending, the last one 1")
        if finalists > trials:
            raise ConfigError(f"search.finalists: found {finalists}; allowed: <= search.trials, {trials}")
        self.space = {**space, **(own or {})}
        self.trials, self.finalists, self.shares, self.n_jobs = trials, finalists, tuple(shares), n_jobs
        self.metric, self.seeds = metric, tuple(range(first_seed, first_seed + 3))
        self.sampler_seed, self.freeze = sampler_seed, freeze
        for key, range_ in self.space.items():
            check_range(key, range_)

    def draw(self) -> list[dict[str, Any]]:
        """The settings of every trial; none for trial 0, the method as it stands. Trial k depends on k alone."""
        return [{}, *(self._drawn(number) for number in range(1, self.trials))]

    def _drawn(self, number: int) -> dict[str, Any]:
        rng = np.random.default_rng([self.sampler_seed, number])
        return {key: _value(range_, rng) for key, range_ in self.space.items()}


def check_range(key: str, range_: Mapping[str, Any]) -> None:
    """Raises ConfigError: what a search draws a key from is neither a range nor a list of choices."""
    if not (_is_choice(range_) or _is_range(range_)):
        problem = f"search.space.{key}: found {short(dict(range_))}"
        raise ConfigError(f"{problem}; allowed: {{low, high, log}} with low < high, > 0 for log, or {{choices}}")


def check_key(config: DictConfig, key: str) -> None:
    """Raises ConfigError: a key that the config has not; one whose value is null is there."""
    parent, _, name = key.rpartition(".")
    node = OmegaConf.select(config, parent) if parent else config
    if not isinstance(node, DictConfig) or name not in node:
        raise ConfigError(f"search.space.{key}: method={config.method.name} has no such key; {ANOTHER_SPACE}")


def _is_choice(range_: Mapping[str, Any]) -> bool:
    choices = range_.get("choices")
    return set(range_) == {"choices"} and isinstance(choices, list) and bool(choices)


def _is_range(range_: Mapping[str, Any]) -> bool:
    low, high, log = range_.get("low", math.nan), range_.get("high", math.nan), range_.get("log", False)
    are_numbers = all(type(value) in (int, float) and math.isfinite(value) for value in (low, high))
    fits = set(range_) <= {"low", "high", "log"} and isinstance(log, bool)
    return fits and are_numbers and low < high and (low > 0 or not log)


def _is_whole(range_: Mapping[str, Any]) -> bool:
    return all(isinstance(range_[end], int) for end in ("low", "high"))


def try_ends(config: DictConfig, key: str, space: Mapping[str, Mapping[str, Any]], typed: Sequence[str] = ()) -> None:
    """Raises ConfigError: an end of the key's range, or a choice, that the run does not take, or with which another key
    of the space, or one that is `typed` beside the search, has no effect: no trial that draws it could run."""
    range_, others = space[key], [f"{other}=drawn" for other in space if other != key]
    for value in range_.get("choices") or (range_["low"], range_["high"]):
        tried = copy.deepcopy(config)
        OmegaConf.update(tried, key, value)
        plan = Plan.make(tried, [f"{key}={value}"])
        if not (_is_choice(range_) or _is_whole(range_)):  # the end of another range is hardly drawn to the digit
            continue
        try:
            refuse_unread(plan.plain, [*others, *(word for word in typed if not word.startswith("search"))])
        except ConfigError as error:
            raise ConfigError(f"search.space.{key}: found {value} beside {error}") from error


def _value(range_: Mapping[str, Any], rng: np.random.Generator) -> Any:
    if choices := range_.get("choices"):
        return list(choices)[int(rng.integers(len(choices)))]
    low, high = range_["low"], range_["high"]
    is_whole, is_log = _is_whole(range_), bool(range_.get("log"))
    if is_whole and not is_log:
        return int(rng.integers(low, high + 1))
    drawn = np.exp(rng.uniform(np.log(low), np.log(high))) if is_log else rng.uniform(low, high)
    return round(drawn) if is_whole else float(f"{drawn:.{DIGITS}g}")


def with_settings(config: DictConfig, settings: Settings) -> dict[str, Any]:
    """The config of a trial, as plain values."""
    drawn = OmegaConf.merge(config, {})
    for key, value in {**settings, **WITHOUT_TEST}.items():
        OmegaConf.update(drawn, key, value)
    plain: Any = OmegaConf.to_container(drawn, resolve=True)
    return plain


def epoch_values(run: RunFolder, metric: str) -> list[float]:
    """The metric of each epoch of a run so far."""
    if not run.has("history.csv"):
        return []
    return [float(row[metric]) for row in run.read_csv("history.csv") if row.get(metric)]


def words(settings: Settings) -> list[str]:
    """Settings as overrides."""
    return [f"{key}={value_word(value)}" for key, value in settings.items()]


@dataclass(frozen=True)
class Trial:
    """Settings on one seed, and the run that trains them."""

    number: int
    settings: Settings
    seed: int
    run: RunFolder
    epochs: int

    @property
    def overrides(self) -> list[str]:
        return words({**self.settings, "seed": self.seed, **WITHOUT_TEST})

    def values(self, metric: str) -> list[float]:
        """The metric of each epoch so far."""
        return epoch_values(self.run, metric)

    def reached(self, share: float, metric: str) -> bool:
        """Whether it trained that share of its epochs, or has ended."""
        done = self._is("finished")
        return done if share == 1 else done or len(self.values(metric)) >= ceil(share * self.epochs)

    def _is(self, status: str) -> bool:
        return self.run.has("metrics.json") and self.run.status == status

    def score(self, share: float, metric: str) -> float:
        """Best value within that share of its epochs; below all others where it has none, failed, or was to train to
        its end and did not."""
        if self._is("failed") or (share == 1 and not self._is("finished")):
            return float("-inf")
        return max(self.values(metric)[: ceil(share * self.epochs)], default=float("-inf"))


def halve(plan: Plan, overrides: Sequence[str], options: Halving) -> Path:
    """Do the runs that are still missing; the folder holds the record, and the line of what won.

    Every decision follows from the histories of the runs, so that the same line goes on wherever it was stopped.
    """
    config = plan.config
    if plan.plain["protocol"]["name"] != "clean":
        protocol = plan.plain["protocol"]["name"]
        raise ConfigError(f"protocol: found {protocol}; allowed with search=halving: clean")
    if any(word.startswith("seed=") for word in overrides):
        raise ConfigError("seed: search=halving tunes on seeds of its own, from search.first_seed on")
    for key in options.space:
        check_key(config, key)
        if why := unread(plan.plain).get(key):
            raise ConfigError(f"search.space.{key}: has no effect; {why}; {ANOTHER_SPACE}")
        try_ends(config, key, options.space, overrides)
    base = without_group(overrides, "search")
    said = [word for word in base if not word.startswith(PLACES)]
    if OmegaConf.select(config, "callbacks.last"):  # the next rung goes on from the epoch that one was stopped after
        base = [*base, "callbacks.last.every_seconds=0"]
    asked = [said, options.space, options.metric, options.seeds, options.trials, options.finalists, options.shares]
    digest = hashlib.sha256(json.dumps([*asked, options.sampler_seed]).encode()).hexdigest()[:8]
    name = f"{config.method.name}_{config.dataset.name}"
    folder = Path(config.paths.runs) / "searches" / f"halving-{name}-{digest}"
    trial = partial(_trial, config, plan.inputs(), _standing(config, options))
    alive = every = [trial(number, settings, options.seeds[0]) for number, settings in enumerate(options.draw())]
    reached: dict[int, float] = {}
    for place, share in enumerate(options.shares):
        _train(alive, share, base, folder / f"rung-{place}", options)
        reached |= dict.fromkeys((candidate.number for candidate in alive), share)
        alive = sorted(alive, key=lambda candidate: (-candidate.score(share, options.metric), candidate.number))
        if share < 1:
            alive = alive[: max(options.finalists, ceil(len(alive) / 2))]
    alive = alive[: options.finalists]
    again = [trial(candidate.number, candidate.settings, seed) for candidate in alive for seed in options.seeds[1:]]
    _train(again, 1.0, base, folder / "seeds", options)
    means = {
        candidate.number: _mean([candidate, *(b for b in again if b.number == candidate.number)], options.metric)
        for candidate in alive
    }
    record = _record(said, options, reached, means, trial) | _code([*every, *again])
    write_text(folder / "search.json", json.dumps(record, indent=1) + "\n")
    _show(record, options)
    print(f"\nbest: {COMMAND} {shell_line([*said, *words(record['settings'])])}")
    if options.freeze:
        print(_freeze(name, record))
    return folder


def _standing(config: DictConfig, options: Halving) -> dict[str, Any]:
    """The values of the searched keys that the method has of itself."""
    return {key: OmegaConf.select(config, key) for key in options.space}


def _trial(
    config: DictConfig, inputs: Mapping[str, str], standing: Settings, number: int, settings: Settings, seed: int
) -> Trial:
    settings = settings or standing
    plain = with_settings(config, {**settings, "seed": seed})
    if isinstance(epochs := plain["trainer"]["max_epochs"], str):
        raise ConfigError(f"trainer.max_epochs: found {epochs}, allowed with search=halving: a number")
    if least := plain["trainer"].get("least_steps"):  # which would train for longer than shares of the epochs say
        raise ConfigError(f"trainer.least_steps: found {least}, allowed with search=halving: 0")
    run = RunFolder(Path(config.paths.runs) / run_id(plain, inputs))
    return Trial(number, settings, seed, run, epochs)


def _train(trials: Sequence[Trial], share: float, base: Sequence[str], folder: Path, options: Halving) -> None:
    """Train each to that share of its epochs. Raises KeyboardInterrupt: the user stopped it."""
    waiting = [candidate for candidate in trials if not candidate.reached(share, options.metric)]
    if not waiting:
        return
    outcomes = run_jobs(
        base,
        [candidate.overrides for candidate in waiting],
        folder,
        options.n_jobs,
        should_stop=lambda number: share < 1 and waiting[number].reached(share, options.metric),
        shown=options.metric,
        warm=True,
    )
    stopped = [
        candidate
        for candidate, outcome in zip(waiting, outcomes, strict=True)
        if outcome.status in ("interrupted", "not started") and not candidate.reached(share, options.metric)
    ]
    if stopped:
        raise KeyboardInterrupt


def _mean(trials: Sequence[Trial], metric: str) -> float:
    return float(np.mean([candidate.score(1.0, metric) for candidate in trials]))


def _record(
    base: Sequence[str], options: Halving, reached: Mapping[int, float], means: Mapping[int, float], trial: Any
) -> dict[str, Any]:
    """What was searched, every trial, and what won."""
    rows = []
    for number, settings in enumerate(options.draw()):
        candidate = trial(number, settings, options.seeds[0])
        score = candidate.score(reached[number], options.metric)
        rows.append(
            {
                "trial": number,
                "settings": dict(candidate.settings),
                "share": reached[number],
                "score": score if np.isfinite(score) else None,
                "mean": means.get(number) if np.isfinite(means.get(number, np.nan)) else None,
                "run": candidate.run.id,
            }
        )
    finished = {number: mean for number, mean in means.items() if np.isfinite(mean)}
    if not finished:
        raise ConfigError("search: no finalist finished; see the logs of the folder's jobs")
    best = min(finished, key=lambda number: (-finished[number], number))
    return {
        "line": shell_line(base),
        "metric": options.metric,
        "seeds": list(options.seeds),
        "finalists": options.finalists,
        "space": {key: dict(range_) for key, range_ in options.space.items()},
        "shares": list(options.shares),
        "trials": rows,
        "best": best,
        "settings": rows[best]["settings"],
    }


def _code(trials: Sequence[Trial]) -> dict[str, Any]:
    """The commits that the runs of these trials were on, and whether one was of code that no commit holds."""
    runs = [each.run for each in trials if each.run.path.exists()]
    environments = [run.read_json(ENVIRONMENT) for run in runs if run.has(ENVIRONMENT)]
    commits = {commit for each in environments for commit in (each.get("commit"), *each.get("earlier_commits", ()))}
    began = [run for run in runs if run.has(ENVIRONMENT)] or runs  # others were refused before they trained
    return {"commits": sorted(filter(None, commits)), "changed": any(map(is_of_changed_code, began))}


def _show(record: Mapping[str, Any], options: Halving) -> None:
    rows = tuple(
        (
            str(row["trial"]),
            *(str(row["settings"][key]) for key in options.space),
            f"{row['share']:g}",
            percent(row["score"]),
            MISSING if row["mean"] is None else percent(row["mean"]),
        )
        for row in sorted(record["trials"], key=lambda row: (-(row["mean"] or 0), -row["share"], -(row["score"] or 0)))
    )
    header = ("trial", *options.space, "share of epochs", options.metric, "mean of 3 seeds")
    Table(f"{len(rows)} trials, best first; figures in %", header, rows).show()


def _freeze(name: str, record: Mapping[str, Any]) -> str:
    """Write the settings that won where the pair finds them by itself, the record beside them; says what it did."""
    file = CONF / "method_dataset" / f"{name}.yaml"
    beside = file.with_suffix(".search.json")
    if file.exists() and not beside.exists():
        raise ConfigError(f"{file}: there already, and not by a search; allowed with search.freeze: no such file")
    settings = OmegaConf.create({})
    for key, value in record["settings"].items():
        OmegaConf.update(settings, key, value)
    title = f"# @package _global_\n# tuned on validation by search=halving; the record: {beside.name}\n"
    write_text(file, title + OmegaConf.to_yaml(settings))
    write_text(beside, json.dumps(record, indent=1) + "\n")
    return f"frozen: {file}"
