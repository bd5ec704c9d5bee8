"""The report as one HTML page, sortable and printable: its pictures are the files beside it, it needs no network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from papers.claims import Check, Claim, Verdict, gains_of, number_asked, outcomes_of
from papers.grid import Budget
from papers.render import (
    RANKING,
    TESTS_HEADER,
    blocks,
    figure_text,
    interval_text,
    p_text,
    printed_text,
    test_groups,
    test_row,
)
from papers.table_report import TableReport
from reporting.page_parts import page_template, style, table_script
from reporting.tables import MISSING, Table

SEEN = "difference seen 80 times of 100 (points)"
CLAIM_HEADER = ("claim", "source", "verdict", "effect (points)", "least p (Holm)", "seeds", "power", SEEN, "command")
CHECK_HEADER = (
    *("claim", "against", "column", "metric", "difference"),
    *("95 % interval", "over seeds and test rows", "p", "p (Holm)", "seeds", "outcome"),
)
HOW_JUDGED = (
    "Paired tests over seeds, Holm's correction over the comparisons of a claim, level 0.05; a comparison that two "
    "claims make has the larger p of the two. Where a claim says that a difference is small, at most so large or not "
    "small, each side has a test and a correction of its own (within and beyond its margin), and so has, where it says "
    "that a gain is there, that the difference lies within the least effect of interest, either way: small; these "
    "corrections are over the comparisons of the claim alone. A claim that compares "
    "gains is asked of differences of differences, paired by seed, whose four cells its comparisons name. A claim is "
    "asked of the columns that this budget has; one that names its columns of these alone, and it lacks runs where "
    "the budget has none. A claim holds where as many comparisons as its quantifier asks for are significant its way, "
    "and is contradicted where so many are significant the other way that it cannot hold; negligible, where none is "
    "its way and so many are the other way or small that it cannot hold with an effect of interest (a rule that is "
    "younger than the figures, the effects are older); not shown is no proof of the contrary. Power: how often "
    "the runs at hand would show the least difference of interest, simulated with the measured spreads, of its own "
    "comparisons, corrected together with the longest list that shares one; seen 80 times of 100: the least "
    "difference that they would show so often, of claims of equality a difference from zero. Over seeds and test rows: "
    "a bootstrap of both, rows within their class, where predictions of ten seeds were kept."
)
STYLES = {
    "holds": "v-holds",
    "holds in part": "v-part",
    "contradicted": "v-contradicted",
    "negligible": "v-contradicted",
    "not shown": "v-not",
}


@dataclass(frozen=True)
class StatisticsTable:
    """A table of counts: what Table 1 of a paper is."""

    key: str
    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    footnotes: tuple[str, ...]


def deciding_p(claim: Claim, check: Check) -> float | None:
    """The corrected p of the side that a comparison decides for, of the claim's own where it decides nothing."""
    denied = check.outcome == "no" and claim.test in ("equal", "differs", "not_below", "not_above")
    return check.holm_p_against if denied or check.outcome == "small" else check.holm_p


def claim_row(verdict: Verdict, budget: str) -> tuple[str, ...]:
    """A verdict as text, in the columns of `CLAIM_HEADER`."""
    claim, checks = verdict.claim, verdict.checks
    word = verdict.verdict
    if checks:
        outcomes = outcomes_of(verdict)
        what = f" {claim.counts}" if claim.counts != "comparisons" else ""
        total = number_asked(verdict)
        word += f"; {claim.quantifier} of {total}{what} asked" if total > 1 else ""
        counts = {name: outcomes.count(name) for name in ("yes", "no", "small", "open")}
        small = f", {counts['small']} small" if counts["small"] else ""
        word += f" ({counts['yes']} for it, {counts['no']} against{small}, {counts['open']} open"
        lacking = total - len(outcomes)
        word += f", {lacking} without runs)" if lacking else ")"
    differences = [check.result.difference for check in checks]
    effect = MISSING
    if differences:
        ends = sorted({f"{min(differences):+.2f}", f"{max(differences):+.2f}"}, key=float)
        effect = " to ".join(ends)
    p_values = [p for check in checks if (p := deciding_p(claim, check)) is not None]
    seeds = sorted({len(check.result.seeds) for check in checks})
    return (
        f"{claim.paper}: {claim.statement}",
        "; ".join([claim.source, *_cells_text(claim), *verdict.marks]),
        word,
        effect,
        p_text(min(p_values)) if p_values else MISSING,
        f"{seeds[0]}" + (f" to {seeds[-1]}" if len(seeds) > 1 else "") if seeds else MISSING,
        MISSING if verdict.power is None else f"{claim.effect:g} points: {100 * verdict.power:.0f} of 100",
        MISSING if verdict.detectable is None else f"{verdict.detectable:.2g}",
        f"make reproduce-tables BUDGET={budget} TABLE={claim.table}",
    )


def check_rows(verdicts: Sequence[Verdict]) -> list[tuple[str, ...]]:
    """Every comparison of every claim as text, in the columns of `CHECK_HEADER`."""
    return [
        (
            f"{verdict.claim.paper}: {verdict.claim.statement}",
            *(check.against, check.column, _metric_text(verdict.claim, check), f"{check.result.difference:+.2f}"),
            MISSING if check.result.interval is None else interval_text(check.result.interval, 1),
            MISSING if check.bootstrap is None else interval_text(check.bootstrap.interval, 1),
            p_text(check.p if deciding_p(verdict.claim, check) == check.holm_p else check.p_against),
            *(p_text(deciding_p(verdict.claim, check)), str(len(check.result.seeds)), check.outcome),
        )
        for verdict in verdicts
        for check in verdict.checks
    ]


def _metric_text(claim: Claim, check: Check) -> str:
    """The metric; of a difference of differences the four cells it is of."""
    if check.less is None:
        return check.metric
    return " - ".join(f"({row} - {rival}) {metric}" for row, rival, metric in gains_of(claim, check))


def _cells_text(claim: Claim) -> list[str]:
    """Of a claim that compares gains, the cells of its differences of differences."""
    if not (claim.against_metrics or claim.against_rows):
        return []
    rows = " - ".join(claim.against_rows) or "the same"
    metrics = f" in {', '.join(claim.against_metrics)}" if claim.against_metrics else ""
    gains = ", ".join(f"{claim.a} - {rival}" for rival in claim.b)
    return [f"difference of differences: {gains} in {', '.join(claim.metrics)}, less {rows}{metrics}"]


def claims_markdown(verdicts: Sequence[Verdict], budget: str) -> str:
    """The page of claims as Markdown."""
    rows = tuple(claim_row(verdict, budget) for verdict in verdicts)
    parts = [
        f"# Does it hold? (BUDGET={budget})",
        HOW_JUDGED,
        Table("", CLAIM_HEADER, rows).markdown().strip(),
    ]
    if checks := check_rows(verdicts):
        parts += ["## Every comparison", Table("", CHECK_HEADER, tuple(checks)).markdown().strip()]
    return "\n\n".join(parts) + "\n"


def html_page(
    budget: Budget,
    reports: Sequence[TableReport],
    verdicts: Sequence[Verdict],
    statistics: Sequence[StatisticsTable],
    pictures: Mapping[str, Path],
    searches: Table | None = None,
) -> str:
    """The whole report.

    Args:
        pictures: title -> SVG file, in the folder ``figures`` beside the page.
        searches: how the settings were chosen, of a budget whose rows are tuned.
    """
    context: dict[str, Any] = {
        "budget": budget,
        "style": style(),
        "table_script": table_script(),
        "reports": reports,
        "statistics": statistics,
        "searches": searches,
        "verdicts": [
            {"cells": claim_row(verdict, budget.key), "css": STYLES.get(verdict.verdict, "v-open")}
            for verdict in verdicts
        ],
        "checks": check_rows(verdicts),
        "claim_header": CLAIM_HEADER,
        "how_judged": HOW_JUDGED,
        "check_header": CHECK_HEADER,
        "tests_header": TESTS_HEADER,
        "pictures": [{"title": title, "place": f"{file.parent.name}/{file.name}"} for title, file in pictures.items()],
        "ranking": RANKING,
        "blocks": blocks,
        "figure_text": figure_text,
        "printed_text": printed_text,
        "test_groups": test_groups,
        "rows_of": lambda tests, report: [test_row(test, report) for test in tests],
    }
    return page_template(Path(__file__).parent).render(context)
