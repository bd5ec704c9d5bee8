"""Does it hold? Claims of the papers, tested on the runs that are there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Literal

import numpy as np
import yaml

from papers.grid import HERE, Line
from papers.predicted_rows import bootstrap_of
from papers.table_report import Comparison, TableReport
from reporting.statistics import (
    BootstrapComparison,
    PairedComparison,
    above_p,
    detectable_effect,
    difference_beyond_p,
    equivalence_p,
    holm,
    paired_comparison,
    power,
    spread_comparison,
)
from storage.errors import ReportError
from storage.records import Run

LEVEL = 0.05
Test = Literal["greater", "less", "equal", "differs", "not_below", "not_above", "positive", "steadier"]
Outcome = Literal["yes", "no", "small", "open"]
Gain = tuple[str, str, str]  # of a row over a rival in a metric


@dataclass(frozen=True)
class Claim:
    """A statement of a paper, and the comparisons that decide on it. `margin` and `effect` in points of %.

    `quantifier`: how many of the comparisons it speaks of: all, most, or a share such as 6/8. `counts`: or of the data
    sets, of which one holds where all its comparisons do. `columns`: those alone, where it does not speak of all. The
    rival "0" is no row but the number.

    `against_metrics`, `against_rows`: of a claim that compares gains. Each of its comparisons is a difference of
    differences, paired by seed: the gain of `a` over a rival in one of `metrics`, less the same gain in one of
    `against_metrics`, or less the gain of the first of `against_rows` over the second.
    """

    key: str
    paper: str
    statement: str
    source: str
    table: str
    test: Test
    a: str
    metrics: tuple[str, ...]
    b: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    against_metrics: tuple[str, ...] = ()
    against_rows: tuple[str, ...] = ()
    quantifier: str = "most"
    counts: Literal["comparisons", "data sets"] = "comparisons"
    margin: float = 0.0
    effect: float = 1.0
    tuned_on: tuple[str, ...] = ()  # columns whose scores were in sight when settings were chosen
    seeds: int = 3
    post_hoc: bool = False  # its definition was written when a table here had figures of it already

    def needed(self, number: int) -> int:
        """So many of ``number`` comparisons must hold for the statement to."""
        if self.quantifier in ("all", "most"):
            return number if self.quantifier == "all" else number // 2 + 1
        part, whole = map(int, self.quantifier.split("/"))
        return -(-number * part // whole)


@dataclass(frozen=True)
class Check:
    """One comparison of a claim: yes, no and small are significant after Holm's correction, open is none of them.

    `p` is of a two-sided test, whose difference says which of yes and no; `p_against` is then of a test that the
    difference lies within the claim's least effect of interest, either way: small. Where a claim says that a difference
    is small, at most so large or not small, `p` speaks for it alone, and `p_against` is of a test of the contrary. Of
    a claim that compares gains, `less` is the one taken from that over `against`, and `result` is of the two.
    """

    against: str
    column: str
    metric: str
    result: PairedComparison
    p: float | None
    holm_p: float | None = None
    p_against: float | None = None
    holm_p_against: float | None = None
    outcome: Outcome = "open"
    spread: float | None = None  # standard deviation of the paired differences
    bootstrap: BootstrapComparison | None = None
    less: Gain | None = None


@dataclass(frozen=True)
class Verdict:
    """What the runs say on a claim.

    `power`: how often they would show the least effect of interest, 0 to 1; `detectable`: the least difference in
    points that paired tests on them would show 80 times of 100.
    """

    claim: Claim
    verdict: str
    checks: tuple[Check, ...] = ()
    wanting: tuple[tuple[str, str, str], ...] = ()  # rival, column and metric of comparisons that lack runs
    power: float | None = None
    detectable: float | None = None
    marks: tuple[str, ...] = ()  # what else to know of its runs


def load_claims() -> list[Claim]:
    """Every claim of `definitions/claims.yaml`, in its order."""
    nodes = yaml.safe_load((HERE / "definitions" / "claims.yaml").read_text(encoding="utf-8"))
    lists = ("metrics", "against_metrics", "against_rows", "b", "columns", "tuned_on")
    return [Claim(**{**node, **{key: _names(node.get(key, ())) for key in lists}}) for node in nodes]


def _names(rows: str | Sequence[str]) -> tuple[str, ...]:
    return (rows,) if isinstance(rows, str) else tuple(rows)


def judge(claim: Claim, report: TableReport, runs: Mapping[str, Run] | None = None) -> Verdict:
    """Test a claim on a filled table.

    holds: as many comparisons as its quantifier asks for are significant its way; contradicted: so many are significant
    the other way that the quantifier fails; in part: fewer are significant its way; negligible: none is, and so many
    are within the least effect of interest, or significant the other way, that it fails; not shown: none of these.
    Comparisons without enough paired seeds are named, and a claim holds, is contradicted or is negligible only where
    they could not undo that; with no others the verdict is not enough runs.

    Args:
        runs: finished runs by id; those that kept their predictions give a bootstrap over seeds and test rows.

    Raises:
        ReportError: the claim names a row, column or metric that its table does not have.
    """
    checks, wanting = [], []
    places = list(product(_columns(claim, report), claim.metrics, _rivals(claim, report)))
    for column, metric, rival, less in [(*place, less) for place in places for less in _less(claim, *place[1:])]:
        check = _compared(claim, report, column.key, (claim.a, rival, metric), less)
        if check is None:
            wanting.append((rival, column.key, metric))
        else:
            checks.append(replace(check, bootstrap=_bootstrap(claim, report, check, runs or {})))
    checks = _corrected(claim, checks)
    marks = tuple(_marks(claim, checks, report, runs or {}))
    figures = _power(claim, checks), _detectable(claim, checks)
    verdict = Verdict(claim, "", tuple(checks), tuple(wanting), *figures, marks)
    return replace(verdict, verdict=_word(verdict))


def _less(claim: Claim, metric: str, rival: str) -> list[Gain] | list[None]:
    """The gains that the gain over a rival is compared with; None where a claim compares no gains."""
    if not (claim.against_metrics or claim.against_rows):
        return [None]
    row, other = claim.against_rows or (claim.a, rival)
    return [(row, other, of_metric) for of_metric in claim.against_metrics or (metric,)]


def _compared(claim: Claim, report: TableReport, column: str, gain: Gain, less: Gain | None) -> Check | None:
    """None without enough paired seeds."""
    a, b = _sides(report, column, gain)
    if less is not None:
        a, b = _differences(a, b), _differences(*_sides(report, column, less))
    differences = list(_differences(a, b).values())
    if len(differences) < claim.seeds:
        return None
    check = _check(claim, gain[1], column, gain[2], a, b)
    return replace(check, spread=float(np.std(differences, ddof=1)), less=less)


def _sides(report: TableReport, column: str, gain: Gain) -> tuple[dict[int, float], dict[int, float]]:
    """Points by seed of a row and of its rival."""
    row, rival, metric = gain
    a = _scaled(report.values(row, column, metric))
    return a, dict.fromkeys(a, 0.0) if rival == "0" else _scaled(report.values(rival, column, metric))


def _differences(a: Mapping[int, float], b: Mapping[int, float]) -> dict[int, float]:
    """Rounded, for gains that are equal in decimal would differ by their rounding, which is no difference to test."""
    return {seed: round(a[seed] - b[seed], 9) for seed in sorted(set(a) & set(b))}


def _bootstrap(claim: Claim, report: TableReport, check: Check, runs: Mapping[str, Run]) -> BootstrapComparison | None:
    """Of differences; of two of them where they are of the same rows. None of figures that are not the model's own,
    whose predictions no record keeps."""
    gains = gains_of(claim, check)
    if claim.test not in ("greater", "less", "differs") or len({gain[:2] for gain in gains}) > 1:
        return None
    metrics = [metric for *_, metric in gains]
    if any(row.reads.keys() & set(metrics) for row in report.grid.rows if row.key in gains[0][:2]):
        return None
    of_a, of_b = (report.runs(row, check.column) for row in (claim.a, check.against))
    return bootstrap_of(of_a, of_b, metrics, runs)


def gains_of(claim: Claim, check: Check) -> list[Gain]:
    """That over the rival, and where a claim compares gains the one that is taken from it."""
    return [(claim.a, check.against, check.metric), *([] if check.less is None else [check.less])]


def _marks(claim: Claim, checks: Sequence[Check], report: TableReport, runs: Mapping[str, Run]) -> Iterator[str]:
    ids = {name for check in checks for name in report.runs(claim.a, check.column).values()}
    encoders = [runs[name].read_config().get("encoder") or {} for name in sorted(ids & runs.keys())]
    if any(encoder.get("train") == "frozen" for encoder in encoders):
        yield "frozen encoder"
    if layers := {encoder["num_top_layers"] for encoder in encoders if encoder.get("train") == "top_layers"}:
        yield f"{max(layers)} top layer{'' if max(layers) == 1 else 's'} trained"
    if claim.post_hoc:
        yield "defined when a table here had figures of it already"
    columns = {check.column for check in checks}
    if seen := [column for column in claim.tuned_on if column in columns]:
        yield f"settings were chosen with scores on {', '.join(seen)} in sight"
    if missing := sorted({*claim.b} & set(report.unranked)):
        titles = {row.key: row.title for row in report.grid.rows}
        yield f"without {', '.join(titles[row] for row in missing)}, not converged"


def one_p(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """The verdicts with one corrected p a comparison: that of the claim that corrects it most.

    Two claims of one table may rest on one comparison, each with the others of its own. Power is that of a claim's own
    comparisons, corrected together with the largest of these lists.
    """
    largest: dict[Any, float] = {}
    families: dict[Any, dict[Any, Check]] = {}
    for verdict in verdicts:
        of_claim = {_place(verdict.claim, check): check for check in verdict.checks}
        for place, check in of_claim.items():
            if check.holm_p is not None:
                largest[place] = max(largest.get(place, 0.0), check.holm_p)
                families[place] = max(families.get(place, {}), of_claim, key=len)
    judged = []
    for verdict in verdicts:
        claim, places = verdict.claim, [_place(verdict.claim, check) for check in verdict.checks]
        pairs = zip(verdict.checks, places, strict=True)
        checks = [replace(check, holm_p=largest.get(place)) for check, place in pairs]
        checks = [replace(check, outcome=_outcome(claim, check, check.holm_p)) for check in checks]
        family = max((families[place] for place in places if place in families), key=len, default={})
        if len(family) > len(checks):
            family = dict(zip(places, checks, strict=True)) | family
            own, listed = range(len(checks)), list(family.values())
            verdict = replace(verdict, power=_power(claim, listed, own), detectable=_detectable(claim, listed, own))
        verdict = replace(verdict, checks=tuple(checks))
        judged.append(replace(verdict, verdict=_word(verdict)))
    return judged


def with_one_p(report: TableReport, verdicts: Sequence[Verdict]) -> TableReport:
    """The table with one corrected p a comparison: that of the claims which make it, planned before the table; of the
    others the largest of its lists."""
    largest: dict[Any, float] = {}
    for test in (*report.against_reference, *report.against_best):
        if test.holm_p is not None:
            largest[_pair(report, test)] = max(largest.get(_pair(report, test), 0.0), test.holm_p)
    for verdict in verdicts:
        of_claim = {_place(verdict.claim, check): check.holm_p for check in verdict.checks}
        largest |= {place: p for place, p in of_claim.items() if p is not None}
    reference, best = (
        tuple(replace(test, holm_p=largest.get(_pair(report, test))) for test in tests)
        for tests in (report.against_reference, report.against_best)
    )
    return replace(report, against_reference=reference, against_best=best)


def _pair(report: TableReport, test: Comparison) -> tuple[Any, ...]:
    return report.grid.key, "difference", frozenset((test.row, test.against)), test.column, test.metric


def _place(claim: Claim, check: Check) -> tuple[Any, ...]:
    """What a comparison tests, whichever claim asks: greater and less are the two sides of one test."""
    kind = "difference" if claim.test in ("greater", "less", "differs") else (claim.test, claim.margin)
    if check.less is None:
        return claim.table, kind, frozenset((claim.a, check.against)), check.column, check.metric
    (a, b, metric), (c, d, other) = gains_of(claim, check)
    added, taken = frozenset(((a, metric), (d, other))), frozenset(((b, metric), (c, other)))
    return claim.table, kind, frozenset((added, taken)), check.column


def _power(claim: Claim, checks: Sequence[Check], own: Sequence[int] | None = None) -> float | None:
    """Of the claim's own among these comparisons, or of all; for paired t-tests whose differences vary."""
    spread, pairs, among = _spreads(checks, own)
    if claim.test not in ("greater", "less", "differs", "positive") or not among:
        return None
    return power(spread, pairs, claim.effect, np.random.default_rng(0), among)


def _detectable(claim: Claim, checks: Sequence[Check], own: Sequence[int] | None = None) -> float | None:
    """Of claims that compare means, equal ones too, where differences vary."""
    spread, pairs, among = _spreads(checks, own)
    if claim.test == "steadier" or not among:
        return None
    return detectable_effect(spread, pairs, np.random.default_rng(0), among=among)


def _spreads(checks: Sequence[Check], own: Sequence[int] | None) -> tuple[list[float], list[int], list[int]]:
    """Standard deviation of the paired differences, pooled over the comparisons of a metric (of gains: of a pair of
    metrics), and seeds of each, of those whose differences vary; the places there of the claim's own."""
    numbers = [n for n, check in enumerate(checks) if check.spread and len(check.result.seeds) > 1]
    measured = [checks[n] for n in numbers]
    among = [place for place, n in enumerate(numbers) if own is None or n in own]
    metrics = [(check.metric, check.less and check.less[-1]) for check in measured]
    variances: dict[tuple[str, str | None], list[float]] = {}
    for metric, check in zip(metrics, measured, strict=True):
        variances.setdefault(metric, []).append((check.spread or 0.0) ** 2)
    spread = [float(np.sqrt(np.mean(variances[metric]))) for metric in metrics]
    return spread, [len(check.result.seeds) for check in measured], among


def _columns(claim: Claim, report: TableReport) -> list[Line]:
    """Those of the budget; of a claim that names its columns all of these, also where the budget has no runs."""
    if claim.columns:
        return [column for column in report.grid.columns if column.overrides and column.key in claim.columns]
    return [column for column in report.columns if column.overrides]


def _rivals(claim: Claim, report: TableReport) -> list[str]:
    rows = [row.key for row in report.grid.rows]
    unknown = {claim.a, *claim.b, *claim.against_rows} - {*rows, "others", "0"}
    unknown |= set(claim.columns) - {column.key for column in report.grid.columns}
    unknown |= {*claim.metrics, *claim.against_metrics} - {metric.key for metric in report.grid.metrics}
    if unknown:
        raise ReportError(f"claim {claim.key}: {claim.table} has no {', '.join(sorted(unknown))}")
    if claim.test == "positive" or claim.b == ("0",):
        return ["0"]
    compared = [row for row in rows if row != claim.a] if claim.b == ("others",) else list(claim.b)
    return [row for row in compared if row not in report.unranked]


def _scaled(values: Mapping[int, float]) -> dict[int, float]:
    return {seed: 100 * value for seed, value in values.items()}


def _check(claim: Claim, rival: str, column: str, metric: str, a: Mapping[int, float], b: Mapping[int, float]) -> Check:
    if claim.test == "steadier":
        spread = spread_comparison(a, b)
        return Check(rival, column, metric, spread, spread.t_test_p)
    result = paired_comparison(a, b)
    if claim.test == "equal":
        within, beyond = equivalence_p(a, b, claim.margin), difference_beyond_p(a, b, claim.margin)
        return Check(rival, column, metric, result, within, p_against=beyond)
    if claim.test in ("not_below", "not_above"):
        higher, lower = (a, b) if claim.test == "not_below" else (b, a)
        within = above_p(higher, lower, -claim.margin)
        return Check(rival, column, metric, result, within, p_against=above_p(lower, higher, claim.margin))
    margin = claim.margin if claim.test == "differs" else claim.effect
    small = equivalence_p(a, b, margin) if margin else None
    if result.t_test_p is None and result.interval is None and result.difference != 0:
        return Check(rival, column, metric, result, 0.5 ** (len(result.seeds) - 1), p_against=small)  # a sign test
    return Check(rival, column, metric, result, result.t_test_p, p_against=small)


def _corrected(claim: Claim, checks: Sequence[Check]) -> list[Check]:
    corrected = zip(holm([check.p for check in checks]), holm([check.p_against for check in checks]), strict=True)
    checks = [
        replace(check, holm_p=p, holm_p_against=against) for check, (p, against) in zip(checks, corrected, strict=True)
    ]
    return [replace(check, outcome=_outcome(claim, check, check.holm_p)) for check in checks]


def _outcome(claim: Claim, check: Check, p: float | None) -> Outcome:
    against = check.holm_p_against is not None and check.holm_p_against < LEVEL
    if claim.test in ("equal", "differs", "not_below", "not_above") and against:
        return "no"
    if p is None or p >= LEVEL:
        return "small" if against else "open"
    if claim.test in ("equal", "differs", "not_below", "not_above"):
        return "yes"
    return "yes" if (check.result.difference > 0) == (claim.test in ("greater", "positive")) else "no"


def outcomes_of(verdict: Verdict) -> list[Outcome]:
    """Of what a claim counts: of each comparison; or of each data set, of which no outweighs small, and small that some
    of its comparisons lack runs or are open."""
    if verdict.claim.counts == "comparisons":
        return [check.outcome for check in verdict.checks]
    of_set: dict[str, set[Outcome]] = {}
    for check in verdict.checks:
        of_set.setdefault(check.column, set()).add(check.outcome)
    for _, column, _ in verdict.wanting:
        of_set.get(column, set()).add("open")
    weight: tuple[Outcome, ...] = ("no", "small", "open", "yes")
    return [min(each, key=weight.index) for each in of_set.values()]


def _lacking(verdict: Verdict) -> int:
    """How many more outcomes there would be with the runs that are lacking."""
    if verdict.claim.counts == "comparisons":
        return len(verdict.wanting)
    return len({column for _, column, _ in verdict.wanting} - {check.column for check in verdict.checks})


def number_asked(verdict: Verdict) -> int:
    """How many outcomes its quantifier speaks of, with those that lack runs."""
    return len(outcomes_of(verdict)) + _lacking(verdict)


def _word(verdict: Verdict) -> str:
    outcomes = outcomes_of(verdict)
    if not outcomes:
        return "not enough runs"
    total = number_asked(verdict)
    needed = verdict.claim.needed(total)
    if outcomes.count("yes") >= needed:
        return "holds"
    if outcomes.count("no") > total - needed:
        return "contradicted"
    if "yes" in outcomes:
        return "holds in part"
    none_for_it = all(check.outcome != "yes" for check in verdict.checks)  # nor beside another one of a data set
    is_small = outcomes.count("no") + outcomes.count("small") > total - needed
    return "negligible" if is_small and none_for_it else "not shown"
