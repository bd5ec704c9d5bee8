"""How long a run will take, from runs that were measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import mean
from typing import Any

from engine.identity import run_id
from storage.errors import ReportError
from storage.records import Run

START_SECONDS = 15.0


@dataclass(frozen=True)
class Estimate:
    """Seconds, and what they come from; None where nothing measured is near."""

    seconds: float | None
    source: str


@dataclass(frozen=True)
class _Traits:
    """What decides on the time of a run."""

    family: str
    method: str
    data: tuple[str, str]
    encoder: tuple[str, str, str]
    epochs: int | str  # a number, or as many as it takes
    views: int
    active: str | None


def _traits(config: Mapping[str, Any]) -> _Traits:
    encoder, dataset = config.get("encoder") or {}, config["dataset"]
    thinned = [str(dataset[key]) for key in ("labels", "labels_per_class") if dataset.get(key) is not None]
    return _Traits(
        run_id({**config, "seed": 0}),
        config["method"]["name"],
        ("/".join([dataset["name"], *thinned]), str((config.get("imbalance") or {}).get("ir"))),
        (str(encoder.get("name")), str(encoder.get("train")), config["trainer"]["accelerator"]),
        config["trainer"]["max_epochs"],
        config["method"].get("num_views", 1),
        (config.get("active") or {}).get("name"),
    )


class Stopwatch:
    """Estimates from the finished runs given, the nearest kind first.

    Runs of the same config with another seed; else of the same method, data, encoder and epochs; of a curve of active
    learning else any other on the same data; else seconds a text
    and view on the same encoder, times the texts of the run, where the number of its texts is known.

    Args:
        runs: finished runs or their records.
        train_rows: training rows by (data set, ir) where no run has them, as a fallback.
    """

    def __init__(self, runs: Iterable[Run], train_rows: Mapping[tuple[str, str], int] | None = None) -> None:
        self.measured: list[tuple[_Traits, float]] = []
        self.rows = dict(train_rows or {})
        for run in runs:
            try:
                metrics, config = run.read_metrics(), run.read_config()
                traits = _traits(config)
            except (ReportError, KeyError, TypeError):
                continue  # written by a version that recorded less
            if "rows" in (config.get("imbalance") or {}):
                continue  # a round of active learning: part of a run that is measured as a whole
            if metrics.get("status") == "finished" and (seconds := _seconds(metrics)):
                self.measured.append((traits, seconds))
                if traits.active is None and metrics.get("class_counts"):  # a clustering counts no training rows
                    self.rows[traits.data] = sum(metrics["class_counts"])

    def estimate(self, config: Mapping[str, Any]) -> Estimate:
        """Time of the run that a resolved config describes."""
        target = _traits(config)
        same = [seconds for traits, seconds in self.measured if traits.family == target.family]
        if same:
            return Estimate(mean(same), f"{len(same)} of the same config")
        alike = ("method", "data", "encoder", "epochs", "views", "active")
        similar = [s for t, s in self.measured if all(getattr(t, name) == getattr(target, name) for name in alike)]
        if similar:
            return Estimate(mean(similar), f"{len(similar)} of the same method")
        if target.active is not None:
            active = [(traits, seconds) for traits, seconds in self.measured if traits.active is not None]
            curves = [s for t, s in active if _same_data(t, target)]
            return Estimate(mean(curves) if curves else None, f"{len(curves)} curves on the same data")
        rates = [
            max(0.0, seconds - START_SECONDS) / self._texts(traits)
            for traits, seconds in self.measured
            if traits.encoder == target.encoder and traits.active is None and self._texts(traits)
        ]
        if rates and self._texts(target):
            seconds = START_SECONDS + mean(rates) * self._texts(target)
            return Estimate(seconds, f"texts a second of {len(rates)} runs")
        return Estimate(None, "nothing measured is near")

    def _texts(self, traits: _Traits) -> int:
        from engine.trainer import HEAD_EPOCHS  # loads PyTorch

        epochs = HEAD_EPOCHS if traits.epochs == "converged" else traits.epochs  # or more, of few rows
        if not isinstance(epochs, int):
            return 0  # known only once it has ended
        return self.rows.get(traits.data, 0) * epochs * traits.views


def _same_data(first: _Traits, second: _Traits) -> bool:
    return (first.data, first.encoder, first.epochs) == (second.data, second.encoder, second.epochs)


def _seconds(metrics: Mapping[str, Any]) -> float | None:
    """Time over all starts of a run; the total leaves out those that were killed."""
    total = metrics.get("seconds/total")
    worked = (metrics.get("seconds/train") or 0) + (metrics.get("seconds/validate") or 0)
    return None if total is None else max(total, worked)
