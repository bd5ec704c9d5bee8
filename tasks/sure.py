"""From which probability on an answer of a finished run is called sure."""

from __future__ import annotations

import sys

import numpy as np

from callbacks.predictions import HEADER
from lightning_modules.base import ClassifierModule
from reporting.calibration import abstention, answers_of_texts
from storage.run_store import RunFolder, damage_named

CHOSEN = "abstention/threshold"  # of a model of `task=auto`
ASKED = "abstention/precision"  # that it was chosen for; older models have none
COPIES = "val_copies.json"  # of validation rows that repeat the text of another: both places; older runs have none
HALF_DIGIT = 5e-7  # of a probability as a run writes it


def sure_from(run: RunFolder, module: ClassifierModule, votes: bool, precision: float | None) -> float | None:
    """The probability, 0 to 1; None where nothing is said of it.

    A model of `task=auto` knows its own. Other runs have one where `precision` is asked for, by `abstention` on their
    validation rows, of which those of equal texts count once.

    Args:
        run: the run, and `module` its method.
        votes: whether neighbours decide with the model.
        precision: share of the sure answers that must be right, 0 to 1, both excluded.

    Raises:
        ValueError: a precision that the validation rows do not show, or that the run cannot be asked for.
    """
    if CHOSEN in run.read_metrics():
        if precision is not None:
            raise _refused(precision, "null; a model of task=auto keeps to the precision=… asked there")
        return run.metric(CHOSEN, (int, float)) if run.read_metrics()[CHOSEN] is not None else None
    if precision is None:
        return None
    if module.multilabel or module.generates:
        raise _refused(precision, "null, where texts have several labels or the head answers in words")
    file = "predictions_retrieval.csv" if votes else "predictions.csv"
    rows = [row for row in run.read_csv(file, *HEADER) if row["split"] == "val"]
    if not rows:
        raise _refused(precision, f"null, for {run.id} has no validation rows")
    with damage_named(run):
        probabilities = np.array([float(row["probability"]) for row in rows])
        first = dict(run.read_json(COPIES)) if run.has(COPIES) else {}
        texts = np.array([first.get(place, place) for place in (int(row["index"]) for row in rows)])
    right = np.array([row["prediction"] == row["label"] for row in rows])
    rule = abstention(*answers_of_texts(probabilities, right, texts), precision)
    number = len(set(texts.tolist()))
    if rule.threshold is None or rule.kept_precision is None:
        raise _refused(precision, f"less, or null; the {number} validation rows of {run.id} do not show it")
    rows_counted = "validation rows" if run.has(COPIES) else "validation rows, those of equal texts counted singly"
    shares = f"{100 * rule.coverage:.0f} % of {number} {rows_counted}, {100 * rule.kept_precision:.1f} % of them"
    print(f"sure: answers from probability {rule.threshold:.6f} on; {shares} right", file=sys.stderr)
    return rule.threshold - HALF_DIGIT


def _refused(precision: float, allowed: str) -> ValueError:
    return ValueError(f"sure: found {precision}; allowed: {allowed}")
