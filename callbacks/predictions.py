"""``predictions.csv``: what was predicted for each row."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import lightning.pytorch as pl
import numpy as np
from numpy.typing import ArrayLike, NDArray

from callbacks.evaluation_rows import Columns, EvaluationRows
from reporting.calibration import at_temperature, brier_score, expected_calibration_error, fit_temperature
from storage.run_store import RunFolder

HEADER = ("split", "index", "label", "prediction", "probability")


class Predictions(EvaluationRows):
    """Writes what evaluation steps return, sorted by split and row.

    Works on the dicts that ``validation_step`` and ``test_step`` return: ``logits`` (B, C), ``labels`` (B,) and
    ``indices`` (B,), the row within the split; ``predictions`` (B,) where the highest logit does not decide, -1 for no
    class, which is an empty cell in the file.

    Args:
        run: folder to write into.
        label_names: names (C,) of the classes.
    """

    keys = ("labels", "logits", "predictions")

    def __init__(self, run: RunFolder, label_names: Sequence[str]) -> None:
        super().__init__()
        self.run = run
        self.label_names = label_names

    def labels_and_predictions(self, split: str) -> tuple[list[int], list[int]]:
        """Class numbers of a split, in row order. Raises KeyError before its evaluation."""
        rows = self.splits[split]
        return rows["labels"].tolist(), rows["predictions"].tolist()

    def temperature(self, split: str) -> float:
        """The temperature that suits the labels of a split best. Raises KeyError before its evaluation."""
        rows = self.splits[split]
        return fit_temperature(rows["labels"], rows["all_probabilities"])

    def calibration(self, split: str, temperature: float | None = None) -> dict[str, float]:
        """`ece` and `brier` of a split, see `reporting.calibration`, also of its probabilities at a temperature; what
        is predicted stays. Raises KeyError before its evaluation."""
        rows = self.splits[split]
        labels, predictions, probabilities = (rows[key] for key in ("labels", "predictions", "all_probabilities"))
        if temperature is not None:
            probabilities = at_temperature(probabilities, temperature)
        confidence = np.where(predictions < 0, 0.0, probabilities[np.arange(len(labels)), predictions])
        error = expected_calibration_error(confidence, labels == predictions)
        return {"ece": error, "brier": brier_score(labels, probabilities)}

    def batch_columns(self, outputs: Columns) -> Columns:
        probabilities = outputs["logits"].double().softmax(dim=-1)
        if "predictions" in outputs:
            predictions = outputs["predictions"].long()
            probability = probabilities.gather(1, predictions.clamp_min(0)[:, None])[:, 0]
            probability = probability.masked_fill(predictions < 0, 0.0)
        else:
            probability, predictions = probabilities.max(dim=-1)
        columns = {key: outputs[key] for key in ("indices", "labels")}
        return columns | {"predictions": predictions, "probabilities": probability, "all_probabilities": probabilities}

    def split_collected(self, trainer: pl.Trainer, split: str) -> None:
        if trainer.is_global_zero:
            self.write()

    def write(self) -> None:
        """Write the file with the splits so far."""
        self.run.write_csv("predictions.csv", self._rows(), HEADER)

    def _rows(self) -> Iterable[tuple[Any, ...]]:
        def name(label: int) -> str:
            return self.label_names[label] if label >= 0 else ""

        for split, rows in self.splits.items():
            columns = (rows[key].tolist() for key in ("indices", "labels", "predictions", "probabilities"))
            for index, label, prediction, probability in zip(*columns, strict=True):
                yield split, index, name(label), name(prediction), f"{probability:.6f}"


class MultiLabelPredictions(Predictions):
    """The same where texts have several labels: ``labels`` (B, C) of 0 and 1.

    In the file the labels, the predicted labels and their probabilities are JSON lists, in the order of the classes.

    Attributes:
        threshold: above which probability a label is predicted, one or one a label (C,); `write` again after a change.
    """

    threshold: ArrayLike = 0.5

    def labels_and_probabilities(self, split: str) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
        """Each (N, C), in row order. Raises KeyError before the split's evaluation."""
        rows = self.splits[split]
        return rows["labels"] > 0, rows["probabilities"]

    def batch_columns(self, outputs: Columns) -> Columns:
        columns = {key: outputs[key] for key in ("indices", "labels")}
        return columns | {"probabilities": outputs["logits"].double().sigmoid()}

    def _rows(self) -> Iterable[tuple[Any, ...]]:
        names = self.label_names
        for split, rows in self.splits.items():
            for index, labels, scores in zip(rows["indices"], *self.labels_and_probabilities(split), strict=True):
                true = [names[c] for c in np.flatnonzero(labels).tolist()]
                yield split, int(index), *map(json_list, (true, *labels_above(self.threshold, scores, names)))


def labels_above(
    threshold: ArrayLike, scores: NDArray[np.floating], label_names: Sequence[str]
) -> tuple[list[Any], list[float]]:
    """Names and scores of the labels whose score is above the threshold, of a row (C,)."""
    above = np.flatnonzero(scores > np.asarray(threshold)).tolist()
    return [label_names[c] for c in above], scores[above].round(6).tolist()


def json_list(values: list[Any]) -> str:
    """A list in one field of a CSV file."""
    return json.dumps(values, ensure_ascii=False)
