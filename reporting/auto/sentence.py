"""The recommendation, and what to mind, in a person's words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from reporting.auto.evidence import Evidence
from reporting.auto.ranking import macro_f1_of, second_figure
from storage.errors import counted

FINE_TUNED = 4  # the least `cost` of a candidate that trains the encoder
UNRELIABLE_WIDTH = 0.3  # of the interval of a class' F1
WANTED_WIDTH = 0.2
MOST_NAMED = 2
REPORT_SECONDS = 5
MOST_KEPT = 0.35  # of the minutes, for the report and for rows that are not compared
TITLES = {"accuracy": "accuracy", "micro_f1": "micro-F1"}


def percent(value: float | None) -> str:
    """A share as "86 %"; "–" where there is none."""
    return "–" if value is None or math.isnan(value) else f"{100 * value:.0f} %"


def asked(share: float) -> str:
    """A share that a person asked for, with the digits that it has: "97.5 %"."""
    return f"{100 * share:.10g} %"


def at_least(threshold: float) -> str:
    """A confidence for who types it: rounded up, for below it nothing is promised; no answer has more than 1."""
    digits = 4 if threshold < 0.999 else 7
    return f"{min(math.ceil(threshold * 10**digits) / 10**digits, 1.0):.{digits}f}".rstrip("0").rstrip(".")


def with_interval(value: float, lower: float, upper: float) -> str:
    """As "86 % (80 to 91)"."""
    return f"{percent(value)} ({100 * lower:.0f} to {100 * upper:.0f})"


def of_own_test(test: Mapping[str, Any]) -> str:
    """What a test file of the person's own says of the model.

    Args:
        test: figures with their intervals, as `task=evaluate` has them.
    """
    second = "accuracy" if "accuracy_low" in test else "micro_f1"
    figures = [
        f"{title} {with_interval(*(test[f'{name}{end}'] for end in ('', '_low', '_high')))}"
        for name, title in (("macro_f1", "macro-F1"), (second, TITLES[second]))
    ]
    line = f"On {test['file']}, {test['rows']:,} rows that chose nothing: {', '.join(figures)}"
    if unknown := test.get("rows_left_out_for_labels"):
        line += f"; left out, of labels that the model does not know: {unknown:,}"
    shared = test["rows_of_input"]
    return line + (f"; with a text that stands in the input, too: {shared:,}" if shared else "") + "."


def rows_to_label(entry: Mapping[str, Any]) -> int:
    """Further rows of a class until its F1's interval is about `WANTED_WIDTH` wide: widths go with 1 / sqrt(rows), rows
    of equal texts counting once; 0 where the file has more of them than were read, or calls another class alike.

    Args:
        entry: of `per_class`; where time was short, fewer of its rows were predicted than there are.
    """
    if entry["rows_in_file"] > entry["rows"] or entry.get("alike"):
        return 0
    wider = (entry["f1_upper"] - entry["f1_lower"]) / WANTED_WIDTH
    wanted = (entry["predicted_texts"] or entry["rows"]) * wider**2
    texts = entry["rows"] * (entry["predicted_texts"] or 1) / (entry["predicted_rows"] or 1)
    step = 10 if wanted < 200 else 50
    return max(math.ceil((wanted - texts) / step), 0) * step


def unreliable(per_class: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Classes whose F1 is not known to within `UNRELIABLE_WIDTH`, the least certain first."""
    wide = [entry for entry in per_class if entry["f1_upper"] - entry["f1_lower"] > UNRELIABLE_WIDTH]
    return sorted(wide, key=lambda entry: entry["f1_lower"] - entry["f1_upper"])


def sentence(evidence: Evidence, ranking: pd.DataFrame, per_class: Sequence[Mapping[str, Any]]) -> str:
    """The recommendation with its figure and interval, what is not shown to be better, and the classes to mind."""
    chosen = ranking[ranking["recommended"]]
    if chosen.empty:
        ended = ranking[ranking["macro_f1"].notna()]
        alone = "".join(f" but “{row['title']}”, macro-F1 {percent(row['macro_f1'])}" for _, row in ended.iterrows())
        return f"Nothing can be recommended: no candidate has finished{alone}; {_what_is_missing(evidence)}."
    row, second = chosen.iloc[0], second_figure(ranking)
    macro_f1, other = (
        with_interval(row[name], row[f"{name}_lower"], row[f"{name}_upper"]) for name in ("macro_f1", second)
    )
    macro_f1 += _without_single_rows(evidence, row["candidate"])
    parts = [f"{row['title']}: macro-F1 {macro_f1}, {TITLES[second]} {other}"]
    parts += _others(evidence, ranking, row)
    doubtful = unreliable(per_class)
    for entry in doubtful[:MOST_NAMED]:
        more, rows = rows_to_label(entry), counted(entry["rows"], "row")
        if entry["rows_in_file"] > entry["rows"]:
            rows = f"{entry['rows']} of its {entry['rows_in_file']:,} rows were read"
        advice = f": label about {more} more" if more else ""
        if alike := entry.get("alike"):
            advice = f": it may be one class with {' and '.join(alike[:MOST_NAMED])} (one spelling in the file)"
        parts.append(f"{entry['label']} is unreliable, {rows}{advice}")
    if more := len(doubtful[MOST_NAMED:]):
        parts.append(f"so {'is' if more == 1 else 'are'} {counted(more, 'more class', 'more classes')}")
    return "; ".join(parts) + "."


def _what_is_missing(evidence: Evidence) -> str:
    """What makes a candidate finish: more minutes, or where time was not the reason, why they did not."""
    ended = [entry for entry in evidence.candidates if entry["status"] in ("failed", "dropped")]
    if ended and not any(entry["status"] == "skipped" for entry in evidence.candidates):
        return "; ".join(f"{entry['title']}: {entry['reason']}" for entry in ended[:MOST_NAMED])
    minutes = minutes_needed(evidence)
    return f"the same line with {'more minutes' if minutes is None else f'minutes={minutes}'} goes on"


def minutes_needed(evidence: Evidence) -> int | None:
    """Minutes in which the first candidate would end, those of this start and as many for what it does anew included;
    None where that was not told."""
    seconds = [needed for entry in evidence.candidates if (needed := entry.get("needed_seconds"))]
    used = 2 * (evidence.question.get("used_minutes") or 0)
    return math.ceil((used + (min(seconds) + REPORT_SECONDS) / 60) / (1 - MOST_KEPT)) if seconds else None


def _without_single_rows(evidence: Evidence, candidate: str) -> str:
    """What macro-F1 is without the classes of one row, which no model that has not seen it knows; "" without any."""
    is_single = np.array([entry["rows"] == 1 for entry in evidence.data["classes"]])
    if not is_single.any() or is_single.all():
        return ""
    figure = macro_f1_of(~is_single, evidence.out_of_fold[candidate], evidence.out_of_fold)
    return f", without {'labels' if evidence.several else 'classes'} of one row {percent(figure)}"


def not_fitted(evidence: Evidence) -> Mapping[str, Any] | None:
    """The candidate that was to be recommended and could not be fitted to all rows, if there is one."""
    return next((entry for entry in evidence.candidates if entry.get("not_fitted")), None)


def _others(evidence: Evidence, ranking: pd.DataFrame, chosen: pd.Series) -> list[str]:
    """What is dearer and not shown to be better, or what the choice stands above."""
    cost = {entry["candidate"]: entry.get("cost", 0) for entry in evidence.candidates}
    within = ranking[ranking["within_noise"].astype(bool) & (ranking["candidate"] != chosen["candidate"])]
    tuned = ranking[ranking["macro_f1"].notna() & (ranking["candidate"].map(cost) >= FINE_TUNED)]
    skipped = [
        e["candidate"] for e in evidence.candidates if e["status"] == "skipped" and cost[e["candidate"]] >= FINE_TUNED
    ]
    parts = []
    is_quality = (evidence.question.get("prefer") or "quality") == "quality"
    added = next(e.get("parts", ()) for e in evidence.candidates if e["candidate"] == chosen["candidate"])
    if is_quality and ranking["candidate"][0] in added:
        parts.append(f"a sum, which goes before its part {ranking['title'][0]}")
    failed = not_fitted(evidence)
    if failed:
        parts.append(f"{failed['title']}, which would have been recommended, could not be fitted to all rows")
    elif cost[chosen["candidate"]] < FINE_TUNED and len(tuned):
        parts.append(f"fine-tuning{', as far as there was time for it,' if skipped else ''} is not shown to be better")
    else:
        if skipped:
            some = " and ".join(skipped) if len(skipped) <= MOST_NAMED else f"{len(skipped)} more ways to fine-tune"
            parts.append(f"there was no time for {'fine-tuning' if tuned.empty else some}")
        if chosen["rank"] > 1:
            parts.append(f"{ranking['title'][0]} is not shown to be better")
        elif len(others := within[within["candidate"] != "majority"]):
            parts.append(f"not shown to be better than {others['title'].iloc[0]}")
    if not within.empty and (within["candidate"] == "majority").any():
        what = "the commonest labels" if evidence.several else "the largest class"
        parts.append(f"not shown to be better than always answering {what}")
    return parts
