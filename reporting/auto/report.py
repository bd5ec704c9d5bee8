"""From a folder of `task=auto` to its ranking, figures, lists of rows and page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from reporting.auto.evidence import Evidence, names_of, read_evidence
from reporting.auto.learning_curve import learning_curve
from reporting.auto.page import html_page
from reporting.auto.ranking import OutOfFold, rank, second_figure
from reporting.auto.sentence import asked, not_fitted, percent, sentence, unreliable
from reporting.auto.suspects import duplicates, suspect_label_sets, suspect_labels
from reporting.calibration import (
    abstention,
    calibration_bins,
    fit_temperature,
)
from reporting.metrics import ClassScores, class_scores, confusion_matrix
from reporting.multilabel_metrics import label_scores
from reporting.resampling import interval
from storage.errors import counted
from storage.run_store import RunFolder

PRECISION = 0.95  # of answers that are kept, where the question names none
OF_CURVE = "logistic"  # the candidate that the learning curve is drawn of
LINE = ["file", "line", "text", "label"]


def write_report(folder: Path | str) -> dict[str, Any]:
    """Write ranking.csv, metrics.json, out_of_fold.csv, errors.csv, confusion.csv, suspect_labels.csv, duplicates.csv
    and index.html.

    Args:
        folder: with `data.json`, `candidates.json`, `question.json`, `rows.parquet`, `out_of_fold/*.parquet` and, where
            they are there, `learning_curve.csv` and `embeddings.npy`.

    Returns:
        What `metrics.json` says.

    Raises:
        ReportError: a file cannot be read or written.
    """
    run, evidence = RunFolder(folder), read_evidence(folder)
    prefer = evidence.question.get("prefer") or "quality"
    ranking = rank(evidence.candidates, evidence.out_of_fold, prefer, evidence.seed)
    chosen = ranking.loc[ranking["recommended"].astype(bool), "candidate"]
    name = None if chosen.empty else str(chosen.iloc[0])
    out_of_fold = evidence.out_of_fold[name] if name else None
    pairs = duplicate_rows(evidence)
    tables = {"duplicates": pairs}
    if out_of_fold is not None:
        table = answered_rows(evidence, out_of_fold)
        tables["out_of_fold"] = table
        tables["errors"] = table[table["label"] != table["predicted"]].iloc[:, : len(LINE) + 2]
        tables["errors"] = tables["errors"].sort_values("confidence", ascending=False, kind="stable")
        tables["suspect_labels"] = suspect_rows(evidence, out_of_fold)
        tables["confusion"] = pd.DataFrame(confused(out_of_fold), columns=evidence.labels)
        tables["confusion"].insert(0, "label", evidence.labels, allow_duplicates=True)
    metrics = {"recommended": name, **figures(evidence, ranking, out_of_fold, pairs)}
    for title, table in {"ranking": ranking, **tables}.items():
        run.write_csv(f"{title}.csv", _cells(table), list(table.columns))
    run.write_metrics(metrics)
    run.write_text("index.html", html_page(evidence, ranking, metrics, tables, run.path))
    return metrics


def _cells(table: pd.DataFrame) -> Iterator[list[Any]]:
    """Rows of a table as CSV has them: an empty field for what is not there."""
    for row in table.itertuples(index=False):
        yield ["" if value is None or value is pd.NA or value != value else value for value in row]


def figures(
    evidence: Evidence, ranking: pd.DataFrame, out_of_fold: OutOfFold | None, pairs: pd.DataFrame
) -> dict[str, Any]:
    """Everything of `metrics.json` but the name of what is recommended."""
    question = evidence.question
    per_class = class_figures(evidence, out_of_fold) if out_of_fold is not None else []
    content: dict[str, Any] = {
        "sentence": sentence(evidence, ranking, per_class),
        "labels": evidence.labels,
        "per_class": per_class,
        "minutes": {"asked": question.get("minutes"), "used": question.get("used_minutes")},
        "comparisons": max(int(ranking["macro_f1"].notna().sum()) - 1, 0),
        "duplicates": leaks(evidence, out_of_fold, pairs),
        "test": evidence.own_test if _is_of(evidence.own_test, ranking) else None,
        "not_fitted": None if (failed := not_fitted(evidence)) is None else failed["candidate"],
    }
    if out_of_fold is not None:
        rule = abstention(*out_of_fold.surest_of_texts(), question.get("precision") or PRECISION)
        content |= {
            "calibration": calibration_figures(out_of_fold, evidence.seed),
            "abstention": {**vars(rule), "reached": rule.reached},
            "repeats": len(out_of_fold.repeats),
            "learning_curve": curve_figures(evidence, ranking),
        }
    return content | {"warnings": list(warnings(evidence, ranking, content))}


def _is_of(own_test: Mapping[str, Any] | None, ranking: pd.DataFrame) -> bool:
    """Whether figures on a test file are of what is recommended: the model of another is dropped after the report."""
    return own_test is not None and own_test.get("candidate") in set(ranking.loc[ranking["recommended"], "candidate"])


def calibration_figures(out_of_fold: OutOfFold, seed: int) -> dict[str, Any]:
    """Whether confidence means what it says; a row that was predicted in several repeats is one row of a bin."""
    sure, right = out_of_fold.confidence()
    bins = calibration_bins(sure, right) if len(sure) else []
    return {
        "ece": out_of_fold.calibration_error(),
        "ece_by_chance": out_of_fold.calibration_noise(np.random.default_rng([seed, 4])),
        "brier": out_of_fold.brier(),
        "temperature": None if out_of_fold.several else fit_temperature(*out_of_fold.pooled()),
        "bins": [part | {"rows": round(part["rows"] / len(out_of_fold.repeats))} for part in bins],
    }


def class_figures(evidence: Evidence, out_of_fold: OutOfFold) -> list[dict[str, Any]]:
    """Of each class: rows that were read, of how many in the file, different texts of those predicted, F1 with its
    interval, precision and recall, means over the repeats; and which others it is called like, if any."""
    f1 = out_of_fold.estimate().f1[0]
    lower, upper = interval(out_of_fold.resampled(evidence.seed).f1, f1, out_of_fold.widened)
    lower, upper = (np.where(out_of_fold.rows_of_class > 0, end, blank) for end, blank in ((lower, 0), (upper, 1)))
    scored = [scores_of(out_of_fold, answers) for answers in out_of_fold.answers]
    predicted, texts = out_of_fold.rows_of_class, out_of_fold.texts_of_class
    classes = evidence.data["classes"]
    rows = [entry["rows"] for entry in classes] if is_part(evidence, out_of_fold) else predicted
    return [
        {
            "label": evidence.labels[place],
            "rows": int(rows[place]),
            "rows_in_file": int(classes[place].get("rows_in_file", rows[place])),
            "predicted_rows": int(predicted[place]),
            "predicted_texts": int(texts[place]),
            "f1": float(f1[place]),
            "f1_lower": float(lower[place]),
            "f1_upper": float(upper[place]),
            "precision": float(np.mean([scores.precision[place] for scores in scored])),
            "recall": float(np.mean([scores.recall[place] for scores in scored])),
            **{key: value for key, value in classes[place].items() if key == "alike"},
        }
        for place in range(out_of_fold.num_classes)
    ]


def is_part(evidence: Evidence, out_of_fold: OutOfFold) -> bool:
    """Whether there was no time to predict all rows."""
    return len(out_of_fold.rows) < len(evidence.rows)


def scores_of(out_of_fold: OutOfFold, answers: NDArray[Any]) -> ClassScores:
    """Precision, recall and F1 of each class in one repeat."""
    if out_of_fold.several:
        return label_scores(out_of_fold.labels, answers)
    return class_scores(out_of_fold.labels, answers, out_of_fold.num_classes)


def confused(out_of_fold: OutOfFold) -> NDArray[np.int64]:
    """Rows of each class (C, C) by the class that was answered; of several labels rows that lack the first and were
    given the second in its place, nothing on the diagonal."""
    labels, answers = out_of_fold.labels, out_of_fold.answers[0]
    if out_of_fold.several:
        return (labels & ~answers).T.astype(np.int64) @ (answers & ~labels).astype(np.int64)
    return confusion_matrix(labels, answers, out_of_fold.num_classes)


def curve_figures(evidence: Evidence, ranking: pd.DataFrame) -> dict[str, Any]:
    """The learning curve of the best ranked candidate that has one."""
    curve = evidence.curve
    tried = [] if curve.empty else [name for name in ranking["candidate"] if name in set(curve["candidate"])]
    if not tried:
        return {"candidate": None, "points": [], "twice_the_labels": None, "note": without_curve(evidence)}
    recommended = ranking.loc[ranking["recommended"], "candidate"].item()
    name = recommended if recommended in tried else tried[0]
    points = curve[curve["candidate"] == name]
    return {"candidate": name, **learning_curve(points, len(evidence.rows))}


def without_curve(evidence: Evidence) -> str:
    """Why no candidate was fitted on shares of the rows."""
    entry = next((entry for entry in evidence.candidates if entry["candidate"] == OF_CURVE), None)
    if entry is None:
        return f"{OF_CURVE}, which it is drawn of, was not to be tried"
    if entry["status"] != "finished":
        return f"{entry['title']}, which it is drawn of, has not finished"
    return f"no time was left to fit {entry['title']} on shares of the rows; the same line with more minutes goes on"


def answered_rows(evidence: Evidence, out_of_fold: OutOfFold) -> pd.DataFrame:
    """file, line, text, label, predicted, confidence, p_LABEL… of the first repeat."""
    table = _lines(evidence, out_of_fold.rows)
    probabilities = out_of_fold.probabilities[0]
    table["predicted"] = answered_names(evidence, out_of_fold.answers[0])
    table["confidence"] = out_of_fold.surest()[0].round(6)
    shares = pd.DataFrame(probabilities.round(6), columns=[f"p_{label}" for label in evidence.labels])
    return pd.concat([table, shares], axis=1)


def suspect_rows(evidence: Evidence, out_of_fold: OutOfFold) -> pd.DataFrame:
    """file, line, text, label, suggested, label_quality, the least likely label first."""
    probabilities = out_of_fold.probabilities.mean(axis=0)
    find = suspect_label_sets if out_of_fold.several else suspect_labels
    suspects = find(out_of_fold.labels, probabilities)
    positions = suspects["position"].to_numpy(int)
    table = _lines(evidence, out_of_fold.rows[positions])
    answers = out_of_fold.answers[0][positions] if out_of_fold.several else suspects["suggested"].to_numpy(int)
    table["suggested"] = answered_names(evidence, answers)
    return table.assign(label_quality=suspects["label_quality"].to_numpy(float).round(6))


def answered_names(evidence: Evidence, answers: NDArray[Any]) -> NDArray[np.object_]:
    """Classes (N,) by name; of several labels (N, C) as JSON lists."""
    names = np.array(evidence.labels, dtype=object)
    if answers.ndim == 1:
        return names[answers]
    return np.array([names_of(names[row]) for row in answers], dtype=object)


def duplicate_rows(evidence: Evidence) -> pd.DataFrame:
    """line_a, line_b, similarity, same_label, text_a, text_b, and the two positions among the rows."""
    rows = evidence.rows
    labels = pd.factorize(rows["label"].astype(str))[0].astype(np.int64)
    pairs = duplicates(list(rows["text"].astype(str)), labels, evidence.embeddings)
    where = (rows["file"].astype(str) + evidence.before_line + rows["line"].astype(str)).to_numpy(object)
    first, second = pairs["first"].to_numpy(int), pairs["second"].to_numpy(int)
    texts = rows["text"].to_numpy(object)
    return pd.DataFrame(
        {
            "line_a": where[first],
            "line_b": where[second],
            "similarity": pairs["similarity"].to_numpy(float).round(4),
            "same_label": pairs["same_label"].to_numpy(bool),
            "text_a": texts[first],
            "text_b": texts[second],
            "row_a": rows["row"].to_numpy(int)[first],
            "row_b": rows["row"].to_numpy(int)[second],
        }
    )


def _lines(evidence: Evidence, rows: np.ndarray) -> pd.DataFrame:
    return evidence.rows.set_index("row").loc[rows, LINE].reset_index(drop=True)


def leaks(evidence: Evidence, out_of_fold: OutOfFold | None, pairs: pd.DataFrame) -> dict[str, Any]:
    """How many pairs are alike, how many of them folds set apart, be it in one repeat, and macro-F1 without the rows
    of those."""
    content: dict[str, Any] = {"pairs": len(pairs), "conflicting": int((~pairs["same_label"].astype(bool)).sum())}
    if out_of_fold is None or pairs.empty:
        return content | {"across_folds": 0, "macro_f1_without": None}
    whole = out_of_fold
    if is_part(evidence, out_of_fold):  # the first drawing is the same for all
        whole = max(evidence.out_of_fold.values(), key=lambda part: len(part.rows))
    folds = pd.DataFrame(whole.folds.T, index=whole.rows)
    first, second = (folds.reindex(pairs[side]).to_numpy() for side in ("row_a", "row_b"))
    apart = pairs[(first != second).any(axis=1)]
    kept = ~np.isin(out_of_fold.rows, np.concatenate([apart["row_a"], apart["row_b"]]))
    rest = out_of_fold.part(kept)
    has_all_classes = ((rest.rows_of_class > 0) == (out_of_fold.rows_of_class > 0)).all()
    is_comparable = len(apart) > 0 and has_all_classes and not is_part(evidence, out_of_fold)
    without = float(rest.estimate().macro_f1[0]) if is_comparable else None
    return content | {"across_folds": len(apart), "macro_f1_without": without}


def warnings(evidence: Evidence, ranking: pd.DataFrame, content: Mapping[str, Any]) -> Iterator[str]:
    """What a person should know before they trust the figures, a line each."""
    file = evidence.data["files"][0]
    if likely := file.get("likely_encoding"):
        yield f"The file was read as {file['encoding']} and looks to be {likely}: encoding={likely} reads it so."
    if hardly := evidence.data.get("hardly_read"):
        yield f"{hardly}."
    chosen = ranking[ranking["recommended"].astype(bool)]
    majority = ranking[(ranking["candidate"] == "majority") & ranking["macro_f1"].notna()]
    second = second_figure(ranking)
    if len(chosen) and len(majority) and majority[second].item() >= chosen[second].item():
        share = percent(majority[second].item())
        if evidence.several:
            yield f"Always the commonest labels have as high a micro-F1 ({share}): mind macro-F1."
        else:
            yield f"Always answering the largest class is right as often ({share}): mind macro-F1, not accuracy."
    chosen_of = evidence.out_of_fold[chosen["candidate"].item()] if len(chosen) else None
    if chosen_of is not None and is_part(evidence, chosen_of):
        share = f"{len(chosen_of.rows):,} of {len(evidence.rows):,} rows"
        yield f"Its figures rest on {share}, for more there was no time; the same line with more minutes goes on."
    if failed := not_fitted(evidence):
        why = f"{failed['title']} would have been recommended, but on all rows {failed['not_fitted']}"
        yield f"{why}; the best that trains no encoder stands in its place; with more minutes it is tried again."
    if len(chosen) and is_longer(evidence, chosen["candidate"].item()):
        yield "The model learns from pairs for longer on all rows than in the folds, which these figures are of."
    repeated = content["duplicates"]
    if repeated["across_folds"]:
        line = f"{equal_pairs(repeated['across_folds'])} in different folds"
        without = repeated["macro_f1_without"]
        yield f"{line}: macro-F1 without their rows is {percent(without)}." if without is not None else f"{line}."
    if repeated["conflicting"]:
        yield f"{equal_pairs(repeated['conflicting'])} with different labels."
    rule = content.get("abstention")
    if rule and not rule["reached"]:
        yield f"No threshold is shown to keep answers that are right {asked(rule['precision'])} of the time."
    for entry in unreliable(content["per_class"]):
        span = f"{percent(entry['f1_lower'])} to {percent(entry['f1_upper'])}"
        rows = f"{entry['predicted_rows']} of its " if entry["predicted_rows"] != entry["rows_in_file"] else ""
        yield f"{entry['label']}: {rows}{counted(entry['rows_in_file'], 'row')}, its F1 lies anywhere from {span}."


def is_longer(evidence: Evidence, name: str) -> bool:
    """Whether a candidate learns for longer on all rows than it did in the folds."""
    return any(entry.get("learns_for_longer") for entry in evidence.candidates if entry["candidate"] == name)


def equal_pairs(number: int) -> str:
    """As "1 pair of nearly equal texts"."""
    return f"{counted(number, 'pair')} of nearly equal texts"
