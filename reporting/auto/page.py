"""The report of `task=auto` as one HTML page that needs nothing beside it: no file, no network, no script."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from reporting import resampling, several_labels
from reporting.auto import drawings
from reporting.auto.commands import evaluate_line, predict_line
from reporting.auto.evidence import Evidence
from reporting.auto.ranking import GAIN_MEAN, second_figure
from reporting.auto.sentence import TITLES, asked, at_least, of_own_test, percent, rows_to_label, with_interval
from reporting.page_parts import page_template

MOST_CLASSES = 20  # in the confusion matrix
MOST_CONFUSIONS, MOST_TEXTS, MOST_ROWS = 12, 8, 25


def html_page(
    evidence: Evidence,
    ranking: pd.DataFrame,
    metrics: Mapping[str, Any],
    tables: Mapping[str, pd.DataFrame],
    folder: Path,
) -> str:
    """The whole page.

    Args:
        evidence: what was asked and measured.
        ranking: of `reporting.auto.ranking.rank`.
        metrics: what `metrics.json` says.
        tables: duplicates and, where something is recommended, errors, confusion and suspect_labels.
        folder: for the commands.
    """
    context: dict[str, Any] = {
        "evidence": evidence,
        "metrics": metrics,
        "folder": folder.name,
        "predict_line": predict_line(folder, evidence.data["files"][0]),
        "evaluate_line": evaluate_line(folder),
        "own_test": of_own_test(metrics["test"]) if metrics["test"] else "",
        "titles": TITLES,
        "draws": resampling.DRAWS,
        "gain": GAIN_MEAN if _counts_gain(evidence) else 0,
        "widened": several_labels.WIDENED if evidence.several else resampling.WIDENED,
        "pairs": records(tables["duplicates"].head(MOST_ROWS)),
        "bar": drawings.interval_bar,
        "short": drawings.short_title,
        "with_interval": with_interval,
        "rows_to_label": rows_to_label,
        "tried": {entry["candidate"]: entry for entry in evidence.candidates},
    }
    context |= _of_candidates(ranking) | _of_recommended(metrics) | _of_errors(evidence.several, tables)
    filters = {"percent": percent, "asked": asked, "at_least": at_least, "seconds": drawings.seconds_text}
    return page_template(Path(__file__).parent, **filters).render(context)


def _counts_gain(evidence: Evidence) -> bool:
    """Whether what is known of fine-tuning counted in the recommendation."""
    is_quality = (evidence.question.get("prefer") or "quality") == "quality"
    ended = [entry for entry in evidence.candidates if entry["status"] == "finished"]
    return is_quality and any(entry.get("is_known_to_gain") for entry in ended)


def _of_candidates(ranking: pd.DataFrame) -> dict[str, Any]:
    """What the page shows of all candidates: their table, and what they cost."""
    rows = records(ranking)
    finished = [row for row in rows if row["macro_f1"] is not None]
    return {
        "finished": finished,
        "others": [row for row in rows if row["macro_f1"] is None],
        "floor": drawings.floor_of([row["macro_f1_lower"] for row in finished]),
        "cost": drawings.cost_chart(finished) if finished and all(row["train_seconds"] for row in finished) else "",
        "second": second_figure(ranking),
    }


def _of_recommended(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Of the recommended one: its classes, whether its probabilities are right, what more rows would bring."""
    curve = metrics.get("learning_curve") or {}
    bins = (metrics.get("calibration") or {}).get("bins")
    return {
        "per_class": sorted(metrics["per_class"], key=lambda entry: entry["f1"]),
        "reliability": drawings.reliability_chart(bins) if bins else "",
        "curve": drawings.curve_chart(curve) if curve.get("points") else "",
    }


def _of_errors(several: bool, tables: Mapping[str, pd.DataFrame]) -> dict[str, Any]:
    """Of its errors and of labels that may be wrong: empty where nothing is recommended."""
    errors, suspects = tables.get("errors"), tables.get("suspect_labels")
    counts = tables["confusion"].iloc[:, 1:] if "confusion" in tables else None
    return {
        "confusions": confusions(errors) if errors is not None and not several else [],
        "wrong": records(errors.head(MOST_TEXTS)) if errors is not None and several else [],
        "label_pairs": label_pairs(counts) if counts is not None and several else [],
        "matrix": matrix(counts) if counts is not None and not several else None,
        "num_errors": 0 if errors is None else len(errors),
        "suspects": [] if suspects is None else records(suspects.head(MOST_ROWS)),
        "num_suspects": 0 if suspects is None else len(suspects),
    }


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows by column, None for what is not there."""
    return [
        {str(name): None if value is pd.NA or value != value else value for name, value in row.items()}
        for row in table.astype(object).to_dict("records")
    ]


def confusions(errors: pd.DataFrame) -> list[dict[str, Any]]:
    """The most frequent pairs of label and prediction, with the texts that were taken so most surely."""
    groups = sorted(errors.groupby(["label", "predicted"]), key=lambda group: -len(group[1]))
    return [
        {"label": label, "predicted": predicted, "rows": len(part), "texts": records(part.head(MOST_TEXTS))}
        for (label, predicted), part in groups[:MOST_CONFUSIONS]
    ]


def label_pairs(table: pd.DataFrame) -> list[dict[str, Any]]:
    """The most frequent pairs of a label that was missed and another that was given to the same text.

    Args:
        table: (C, C) counts, columns by label.
    """
    counts, names = table.to_numpy(), list(table)
    missed, instead = np.unravel_index(np.argsort(-counts, axis=None, kind="stable")[:MOST_CONFUSIONS], counts.shape)
    return [
        {"label": names[first], "predicted": names[second], "rows": int(counts[first, second])}
        for first, second in zip(missed, instead, strict=True)
        if counts[first, second]
    ]


def matrix(table: pd.DataFrame) -> dict[str, Any] | None:
    """Names and counts (C, C) with the share of their class, as shades; None with more than `MOST_CLASSES`."""
    counts, names = table.to_numpy(), list(table)
    if len(counts) > MOST_CLASSES:
        return None
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    rows = [
        {"name": name, "cells": [{"count": int(c), "shade": f"{s:.2f}"} for c, s in zip(*pair, strict=True)]}
        for name, *pair in zip(names, counts, shares, strict=True)
    ]
    return {"names": names, "rows": rows}
