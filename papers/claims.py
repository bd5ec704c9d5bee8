"""Does it hold? Claims of the papers, tested on the runs that are there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import yaml

from papers.grid import HERE
from papers.table_report import TableReport
from reporting.statistics import PairedComparison, equivalence_p, holm, paired_comparison, spread_comparison
from storage.errors import ReportError

LEVEL = 0.05
Test = Literal["greater", "less", "equal", "positive", "steadier"]
Outcome = Literal["yes", "no", "open"]


@dataclass(frozen=True)
class Claim:
    """A statement of a paper, and the comparisons that decide on it. `margin` in points of %."""

    key: str
    paper: str
    statement: str
    source: str
    table: str
    test: Test
    a: str
    metrics: tuple[str, ...]
    b: tuple[str, ...] = ()
    margin: float = 0.0
    seeds: int = 3


@dataclass(frozen=True)
class Check:
    """One comparison of a claim: yes and no are significant after Holm's correction, open is neither."""

    against: str
    column: str
    metric: str
    result: PairedComparison
    p: float | None
    holm_p: float | None = None
    outcome: Outcome = "open"


@dataclass(frozen=True)
class Verdict:
    """What the runs say on a claim."""

    claim: Claim
    verdict: str
    checks: tuple[Check, ...] = ()
    wanting: tuple[str, ...] = field(default_factory=tuple)  # comparisons that lack runs


def load_claims() -> list[Claim]:
    nodes = yaml.safe_load((HERE / "definitions" / "claims.yaml").read_text(encoding="utf-8"))
    lists = [{**node, "metrics": tuple(node["metrics"]), "b": _names(node.get("b", ()))} for node in nodes]
    return [Claim(**node) for node in lists]


def _names(rows: str | Sequence[str]) -> tuple[str, ...]:
    return (rows,) if isinstance(rows, str) else tuple(rows)


def judge(claim: Claim, report: TableReport) -> Verdict:
    """Test a claim on a filled table.

    holds: every comparison that the claim speaks of is significant its way; in part: some are and none the other way;
    contradicted: at least one is significant the other way; not shown: none is significant. Comparisons without enough
    paired seeds are named and not counted; with none left the verdict is not enough runs.

    Raises:
        ReportError: the claim names a row or metric that its table does not have.
    """
    rivals = _rivals(claim, report)
    checks, wanting = [], []
    for column in (column for column in report.columns if column.overrides):
        for metric in claim.metrics:
            a = _scaled(report.values(claim.a, column.key, metric))
            for rival in rivals:
                b = dict.fromkeys(a, 0.0) if claim.test == "positive" else _scaled(
                    report.values(rival, column.key, metric)
                )
                if len(set(a) & set(b)) < claim.seeds:
                    wanting.append(f"{rival}, {column.title}, {metric}")
                    continue
                checks.append(_check(claim, rival, column.key, metric, a, b))
    checks = _corrected(claim, checks)
    return Verdict(claim, _word(checks), tuple(checks), tuple(wanting))


def _rivals(claim: Claim, report: TableReport) -> list[str]:
    rows = [row.key for row in report.grid.rows]
    unknown = {claim.a, *claim.b} - {*rows, "others"}
    unknown |= set(claim.metrics) - {metric.key for metric in report.grid.metrics}
    if unknown:
        raise ReportError(f"claim {claim.key}: {claim.table} has no {', '.join(sorted(unknown))}")
    if claim.test == "positive":
        return ["0"]
    row_keys = {row.key for row in report.rows}
    compared = [row for row in rows if row != claim.a] if claim.b == ("others",) else list(claim.b)
    return [row for row in compared if row in row_keys]


def _scaled(values: Mapping[int, float]) -> dict[int, float]:
    return {seed: 100 * value for seed, value in values.items()}


def _check(
    claim: Claim, rival: str, column: str, metric: str, a: Mapping[int, float], b: Mapping[int, float]
) -> Check:
    if claim.test == "steadier":
        spread = spread_comparison(a, b)
        return Check(rival, column, metric, spread, spread.t_test_p)
    result = paired_comparison(a, b)
    if claim.test == "equal":
        return Check(rival, column, metric, result, equivalence_p(a, b, claim.margin))
    if result.t_test_p is None and result.interval is None and result.difference != 0:
        return Check(rival, column, metric, result, 0.0)  # the same difference at every seed
    return Check(rival, column, metric, result, result.t_test_p)


def _corrected(claim: Claim, checks: Sequence[Check]) -> list[Check]:
    corrected = holm([check.p for check in checks])
    return [
        replace(check, holm_p=p, outcome=_outcome(claim, check, p)) for check, p in zip(checks, corrected, strict=True)
    ]


def _outcome(claim: Claim, check: Check, p: float | None) -> Outcome:
    result = check.result
    if claim.test == "equal":
        interval = result.interval or (result.difference, result.difference)
        outside = interval[0] > claim.margin or interval[1] < -claim.margin
        return "yes" if p is not None and p < LEVEL else "no" if outside else "open"
    if p is None or p >= LEVEL:
        return "open"
    return "yes" if (result.difference > 0) == (claim.test in ("greater", "positive")) else "no"


def _word(checks: Sequence[Check]) -> str:
    outcomes = [check.outcome for check in checks]
    if not outcomes:
        return "not enough runs"
    if "no" in outcomes:
        return "contradicted"
    if "open" not in outcomes:
        return "holds"
    return "holds in part" if "yes" in outcomes else "not shown"
