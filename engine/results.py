"""Results of an evaluation, by kind of labels: metrics, files in the run's folder, tables at the end."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from callbacks.predictions import MultiLabelPredictions, Predictions, json_list, labels_above
from datamodules.datamodule import DataModule
from lightning_modules.base import ClassifierModule
from lightning_modules.methods.multilabel.base import MultiLabelModule
from reporting.intervals import (
    INTERVAL_METRICS,
    MULTILABEL_INTERVAL_METRICS,
    bootstrap_intervals,
    majority_metrics,
    multilabel_intervals,
)
from reporting.metrics import NO_CLASS, classification_metrics, confusion_matrix
from reporting.multilabel_metrics import best_threshold, label_scores, multilabel_metrics
from reporting.tables import LABEL_COLUMNS, retrieval_table, summary_table, worst_confusions, worst_labels
from storage.run_store import RunFolder, damage_named

Scores = NDArray[np.floating]
RIVALS = {
    "majority": "always the largest class",
    "logistic": "logistic regression over the frozen encoder (method=logistic)",
}
RIVALS_OF_SEVERAL = {
    "majority": "always the labels that enough train rows have",
    "logistic": "a logistic regression a label over the frozen encoder (method=bce encoder.train=frozen)",
}


class SingleLabelResults:
    """Results on texts with one label each.

    Attributes:
        collector: the callback that sees the outputs.
    """

    def __init__(self, run: RunFolder, datamodule: DataModule, generates: bool = False) -> None:
        self.run, self.names, self.generates = run, datamodule.label_names, generates
        self.class_counts, self.bounds = datamodule.class_counts.tolist(), datamodule.shot_bounds
        self.collector = Predictions(run, self.names)

    def figures(self, split: str) -> dict[str, Any]:
        """Metrics of a split that was evaluated."""
        self.last = self.collector.labels_and_predictions(split)
        figures = classification_metrics(*self.last, len(self.names), self.class_counts, self.bounds)
        figures |= bootstrap_intervals(*self.last, len(self.names), np.random.default_rng(0))
        figures |= majority_metrics(self.last[0], self.class_counts)
        if not self.generates:
            figures |= self._calibration(split)
        if self.generates:
            figures["unparsable"] = float(np.mean(np.array(self.last[1]) == NO_CLASS))
        return figures

    def _calibration(self, split: str) -> dict[str, float]:
        """What the probabilities are worth; of test rows also at the temperature that suits the validation rows."""
        figures = self.collector.calibration(split)
        if split == "test" and "val" in self.collector.splits:
            temperature = self.collector.temperature("val")
            scaled = self.collector.calibration(split, temperature)
            figures |= {"temperature": temperature, **{f"{name}_scaled": value for name, value in scaled.items()}}
        return figures

    def choose_threshold(self, labels: NDArray[np.integer], scores: Scores) -> ArrayLike | None:
        """The threshold for scores (N, C); None, for the best score is taken."""
        return None

    def metrics(self, labels: NDArray[np.integer], scores: Scores, threshold: ArrayLike | None) -> dict[str, float]:
        """Metrics of scores (N, C) from elsewhere than the model alone."""
        return classification_metrics(labels, scores.argmax(axis=1), len(self.names), self.class_counts, self.bounds)

    def lines(self, labels: NDArray[np.integer], scores: Scores, threshold: ArrayLike | None) -> Iterator[tuple]:
        """Label, prediction and probability of each row, as `predictions.csv` has them."""
        for label, row in zip(labels, scores, strict=True):
            best = int(row.argmax())
            yield self.names[label], self.names[best], f"{row[best]:.6f}"

    def finish(self) -> dict[str, Any]:
        """Write what belongs to the last split; returns what prediction needs to know besides the weights."""
        counts = confusion_matrix(*self.last, len(self.names))
        rows = ([name, *row] for name, row in zip(self.names, counts, strict=True))
        self.run.write_csv("confusion.csv", rows, ("label", *self.names))
        return {}


class MultiLabelResults:
    """Results on texts with any number of labels. The split that is measured first chooses the threshold."""

    def __init__(self, run: RunFolder, datamodule: DataModule, module: MultiLabelModule) -> None:
        self.run, self.names, self.module = run, datamodule.label_names, module
        self.class_counts = datamodule.class_counts.tolist()
        self.collector = MultiLabelPredictions(run, self.names)
        self.shares = datamodule.class_counts / max(len(datamodule.indices["train"]), 1)
        self.threshold: Any = None  # a number, or one a label (C,)
        self.majority_threshold: Any = None  # by the same rule, for the labels' shares of the train rows

    def figures(self, split: str) -> dict[str, Any]:
        """Metrics of a split that was evaluated; `accuracy` is that of whole label sets."""
        labels, scores = self.collector.labels_and_probabilities(split)
        if self.threshold is None:
            self.threshold = self.choose_threshold(labels, scores)
            self.majority_threshold = self.choose_threshold(labels, self._constant(labels))
            self.collector.threshold = self.threshold
            self.collector.write()
        self.last = labels, scores
        intervals = multilabel_intervals(labels, scores > np.asarray(self.threshold), np.random.default_rng(0))
        return self.metrics(labels, scores, self.threshold) | intervals | self._majority(labels)

    def _constant(self, labels: NDArray) -> Scores:
        """The share of train rows that have a label as its score, in every row (N, C)."""
        return np.broadcast_to(self.shares, labels.shape)

    def _majority(self, labels: NDArray) -> dict[str, float]:
        """`majority_micro_f1` and `majority_macro_f1`: always the labels whose share is above its threshold."""
        if not self.shares.any():
            return {}
        metrics = multilabel_metrics(labels, self._constant(labels), self.majority_threshold)
        return {f"majority_{name}": metrics[name] for name in MULTILABEL_INTERVAL_METRICS}

    def choose_threshold(self, labels: NDArray, scores: Scores) -> ArrayLike:
        """The threshold for scores (N, C) by the method's rule."""
        rule = self.module.threshold  # a method may have chosen a number before its training
        return best_threshold(labels, scores, rule) if isinstance(rule, str) else rule

    def metrics(self, labels: NDArray, scores: Scores, threshold: ArrayLike) -> dict[str, float]:
        """Metrics of scores (N, C)."""
        metrics = multilabel_metrics(labels, scores, threshold)
        return {"accuracy": metrics["subset_accuracy"], **metrics}

    def lines(self, labels: NDArray[np.integer], scores: Scores, threshold: ArrayLike) -> Iterator[tuple]:
        """Labels, predictions and probabilities of each row, as `predictions.csv` has them."""
        for label, row in zip(labels, scores.astype(np.float64), strict=True):
            true = [self.names[c] for c in np.flatnonzero(label)]
            yield tuple(map(json_list, (true, *labels_above(threshold, row, self.names))))

    def finish(self) -> dict[str, Any]:
        """Write `labels.csv`, a line a label of the last split; returns the threshold."""
        scores = label_scores(*self.last, self.threshold)
        thresholds = np.broadcast_to(self.threshold, len(self.names))
        counts = (self.class_counts, scores.references, scores.predictions)
        figures = ([f"{v:.6f}" for v in column] for column in (scores.precision, scores.recall, scores.f1, thresholds))
        rows = zip(self.names, *counts, *figures, strict=True)
        self.run.write_csv("labels.csv", rows, LABEL_COLUMNS)
        return {"threshold": np.asarray(self.threshold).tolist()}


Results = SingleLabelResults | MultiLabelResults


def results_for(run: RunFolder, module: ClassifierModule, datamodule: DataModule) -> Results:
    """For the kind of labels of a data set; `module` takes them, as `engine.label_kind` has checked."""
    if isinstance(module, MultiLabelModule):
        return MultiLabelResults(run, datamodule, module)
    return SingleLabelResults(run, datamodule, module.generates)


def show_figures(metrics: Mapping[str, Any], split: str) -> None:
    """Print the figures of a split; with and without the neighbours, where there are any."""
    summary_table(metrics, split).show()
    if (rows := metrics.get("rival_left_out")) is not None:
        how = "method=logistic on the same data says it, and a run that begins with rival=always"
        print(f"no logistic regression beside it, for {rows:,} rows are more than are encoded for that alone: {how}")
    if f"{split}/ece" in metrics:
        ece, brier = metrics[f"{split}/ece"], metrics[f"{split}/brier"]
        print(f"probabilities: off by {100 * ece:.1f} points on the mean (ECE), Brier score {brier:.3f}")
    if f"{split}/ece_scaled" in metrics:
        ece, brier = metrics[f"{split}/ece_scaled"], metrics[f"{split}/brier_scaled"]
        temperature = f"at temperature {metrics[f'{split}/temperature']:.2f}, fitted to the validation rows"
        print(f"{temperature}: {100 * ece:.1f} points, Brier score {brier:.3f} (predictions are not scaled)")
    warn_below_rivals(metrics, split)
    if f"{split}/unparsable" in metrics:
        print(f"{100 * metrics[f'{split}/unparsable']:.2f} % of the answers are no class, and count as errors")
    if "retrieval/lam" in metrics:
        print()
        retrieval_table(metrics, split).show()


def warn_below_rivals(metrics: Mapping[str, Any], split: str) -> None:
    """A line where a figure of a split is below that of a cheaper way."""
    has_several = f"{split}/hamming_loss" in metrics
    for name in MULTILABEL_INTERVAL_METRICS if has_several else INTERVAL_METRICS:
        for key, title in (RIVALS_OF_SEVERAL if has_several else RIVALS).items():
            rival = metrics.get(f"{split}/{key}_{name}")
            if key == "logistic" and "rival_reads" in metrics:
                title = f"logistic regression over {metrics['rival_reads']}"
            if rival is not None and metrics[f"{split}/{name}"] < rival:
                shown = f"{100 * metrics[f'{split}/{name}']:.2f} % is below {100 * rival:.2f} %"
                print(f"warning: {name} of {shown}, which {title} reaches", file=sys.stderr)


def report(run: RunFolder) -> None:
    """Print the tables that a finished run ends with. Raises ReportError where its files are damaged."""
    with damage_named(run):
        _report(run)


def _report(run: RunFolder) -> None:
    metrics = run.read_metrics()
    split = next((split for split in ("test", "val") if f"{split}/accuracy" in metrics), None)
    if split is None:
        print("nothing is measured: no row with a label is held out (dataset.test=FILE); task=predict answers texts")
        return
    show_figures(metrics, split)
    print()
    if "threshold" in metrics:
        worst_labels(run.read_csv("labels.csv")).show()
        return
    rows = [row for row in run.read_csv("predictions.csv") if row["split"] == split]
    index = {name: number for number, name in enumerate(metrics["label_names"])} | {"": NO_CLASS}
    labels, predictions = ([index[row[column]] for row in rows] for column in ("label", "prediction"))
    worst_confusions(labels, predictions, metrics["label_names"], metrics["class_counts"]).show()
