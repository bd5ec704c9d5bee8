"""Claims over a made-up grid: verdicts, their tests, and what lacks runs."""

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from scipy import stats

from papers import claims, predicted_rows
from papers.claims import judge, load_claims, one_p, with_one_p
from papers.grid import load_grid
from papers.page import check_rows, claim_row
from papers.render import markdown
from papers.table_report import TableReport, table_report
from reporting.statistics import power
from storage.errors import ReportError
from storage.run_store import RunFolder
from tests.papers.made_up_grid import claim, make_run


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({}, "holds"),
        ({"test": "less"}, "contradicted"),
        ({"b": ("dice",)}, "not enough runs"),
        ({"b": ("ce", "dice")}, "holds in part"),
        ({"test": "equal", "margin": 1.0}, "contradicted"),
        ({"test": "equal", "margin": 20.0}, "holds"),
        ({"test": "equal", "margin": 5.2}, "not shown"),
        ({"test": "positive", "b": ()}, "holds"),
        ({"test": "greater", "b": ("0",)}, "holds"),
        ({"test": "equal", "b": ("0",), "margin": 1.0}, "contradicted"),
        ({"test": "differs", "margin": 1.0}, "holds"),
        ({"test": "differs", "margin": 1.0, "a": "ce", "b": ("sharprecl",)}, "holds"),
        ({"test": "differs", "margin": 20.0}, "contradicted"),
        ({"test": "not_below", "margin": 1.0}, "holds"),
        ({"test": "not_above", "margin": 1.0}, "contradicted"),
        ({"test": "not_above", "margin": 20.0}, "holds"),
        ({"test": "not_below", "margin": 1.0, "a": "ce", "b": ("sharprecl",)}, "contradicted"),
        ({"columns": ("trec_50",)}, "holds"),
        ({"columns": ("ohsumed",)}, "not enough runs"),
        ({"columns": ("trec_50", "ohsumed")}, "holds in part"),
        ({"columns": ("trec_50", "ohsumed"), "quantifier": "1/2"}, "holds"),
        ({"a": "simcse"}, "not enough runs"),
        ({"test": "steadier"}, "not shown"),
    ],
)
def test_verdicts(report, changes, verdict):
    assert judge(claim(**changes), report).verdict == verdict


SMALL = 0.01  # of ten points: below the least effect of interest, one point


@pytest.mark.parametrize(
    ("quantifier", "signs", "verdict"),
    [
        ("all", (1, 1, 1, 1), "holds"),
        ("all", (1, 1, 1, 0), "holds in part"),
        ("all", (1, 1, 1, -1), "contradicted"),
        ("most", (1, 1, 1, -1), "holds"),
        ("most", (0, 0, 0, -1), "not shown"),
        ("most", (0, -1, -1, 1), "contradicted"),
        ("3/4", (1, 1, -1, -1), "contradicted"),
        ("most", (SMALL, SMALL, 0, 0), "negligible"),
        ("most", (SMALL, -1, 0, 0), "negligible"),
        ("most", (SMALL, 0, 0, 0), "not shown"),
        ("all", (SMALL, 0, 0, 1), "holds in part"),
    ],
)
def test_a_claim_is_contradicted_where_its_quantifier_fails(report, monkeypatch, quantifier, signs, verdict):
    rivals = ("dice", "focal", "simcse", "spcl")
    noise = np.array([0.0, 0.002, -0.002, 0.001, -0.001])
    values = {rival: 0.5 - 0.1 * sign + noise * (1 if sign else 40) for rival, sign in zip(rivals, signs, strict=True)}
    values["sharprecl"] = np.full(5, 0.5)
    monkeypatch.setattr(TableReport, "values", lambda self, row, *_: dict(enumerate(values[row].tolist())))
    monkeypatch.setattr(claims, "_rivals", lambda *_: list(rivals))
    judged = judge(claim(quantifier=quantifier, b=rivals), report)
    assert judged.verdict == verdict
    assert [check.outcome == "small" for check in judged.checks] == [sign == SMALL for sign in signs]
    if verdict == "negligible":
        assert "small" in claim_row(judged, "cpu")[2] and float(claim_row(judged, "cpu")[4].lstrip("< ")) < 0.05


def test_of_data_sets_one_holds_where_all_its_comparisons_do():
    def verdict(wanting=(), **outcomes):
        checks = [
            claims.Check("ce", column, "test/accuracy", None, 0.5, outcome=outcome)
            for column, several in outcomes.items()
            for outcome in several
        ]
        return claims.Verdict(claim(counts="data sets", quantifier="2/3"), "", tuple(checks), wanting)

    of_sets = verdict(a=["yes", "yes"], b=["yes", "no"], c=["open", "yes"], d=["yes"])
    assert claims.outcomes_of(of_sets) == ["yes", "no", "open", "yes"] and claims._word(of_sets) == "holds in part"
    assert claims.outcomes_of(verdict((("ce", "d", "test/accuracy"),), d=["yes"])) == ["open"]
    assert claims._word(verdict(a=["yes"], b=["no", "yes"], d=["yes"])) == "holds"
    assert claims._word(verdict(a=["yes"], b=["no", "yes"], d=["no"])) == "contradicted"
    assert claims._word(verdict(a=["small", "open"], b=["small"], d=["open"])) == "negligible"
    assert claims._word(verdict(a=["small", "yes"], b=["small"], d=["open"])) == "not shown", "one is its way"


def test_what_lacks_runs_keeps_a_claim_from_holding(report):
    checks = [claims.Check("ce", "a", "test/accuracy", None, 0.5, outcome="yes")] * 2
    wanting = tuple((rival, "a", "test/accuracy") for rival in ("dice", "focal"))
    verdict = claims.Verdict(claim(quantifier="most"), "", tuple(checks), wanting[:1])
    assert claims._word(verdict) == "holds", "two of three whatever the third says"
    assert claims._word(replace(verdict, wanting=wanting)) == "holds in part"
    denied = replace(verdict, checks=(replace(checks[0], outcome="no"),))
    assert claims._word(replace(denied, wanting=wanting[:1])) == "contradicted", "one of two is not most"
    assert claims._word(replace(denied, wanting=wanting)) == "not shown", "two of three may still hold"
    of_budget = replace(report, rows=tuple(row for row in report.rows if row.key != "dice"))
    assert ("dice", "trec_50", "test/accuracy") in judge(claim(b=("ce", "dice")), of_budget).wanting
    assert judge(claim(columns=("ohsumed",)), report).wanting == (("ce", "ohsumed", "test/accuracy"),)


def test_one_comparison_has_one_corrected_p(report):
    alone, beside = judge(claim(), report), judge(claim(metrics=("test/accuracy", "test/macro_f1")), report)
    assert alone.checks[0].holm_p < beside.checks[0].holm_p
    verdicts = one_p([alone, beside])
    assert [verdict.checks[0].holm_p for verdict in verdicts] == [beside.checks[0].holm_p] * 2
    spreads, rng = [check.spread for check in beside.checks], np.random.default_rng
    among = [power(spreads, [5, 5], 1.0, rng(0), [number]) for number in (0, 1)]
    assert verdicts[0].power == among[0] < alone.power, "its own comparison, corrected for both"
    assert verdicts[1].power == beside.power == pytest.approx(np.mean(among))
    lists = (*report.against_reference, *report.against_best)
    of_lists = [test.holm_p for test in lists if (test.row, test.metric) == ("sharprecl", "test/accuracy")]
    shown = with_one_p(report, verdicts)
    tests = [test for test in (*shown.against_reference, *shown.against_best) if test.metric == "test/accuracy"]
    assert {test.holm_p for test in tests if test.row == "sharprecl"} == {beside.checks[0].holm_p}
    in_none = with_one_p(report, [])
    tests = [test for test in (*in_none.against_reference, *in_none.against_best) if test.metric == "test/accuracy"]
    assert {test.holm_p for test in tests if test.row == "sharprecl"} == {max(of_lists)}
    assert "p (Holm) is that of the claim which makes the comparison" in markdown(shown)


GAINS = {"metrics": ("test/macro_f1_head",), "against_metrics": ("test/macro_f1_middle", "test/macro_f1_tail")}


@pytest.mark.slow
def test_a_claim_that_compares_gains_is_asked_of_differences_of_differences(report, monkeypatch):
    rng = np.random.default_rng(0)
    thirds = ("head", "middle", "tail")
    values = {(row, third): rng.normal(0.5, 0.01, 5) for row in ("sharprecl", "ce") for third in thirds}
    values["sharprecl", "head"] += 0.1
    monkeypatch.setattr(
        TableReport, "values", lambda self, row, _, key: dict(enumerate(values[row, key.split("_")[-1]].tolist()))
    )
    monkeypatch.setattr(claims, "_rivals", lambda *_: ["ce"])
    verdict = judge(claim(**GAINS, quantifier="all"), report)
    assert verdict.verdict == "holds" and verdict.power is not None
    for check, other in zip(verdict.checks, ("middle", "tail"), strict=True):
        gains = [100 * (values["sharprecl", third] - values["ce", third]) for third in ("head", other)]
        expected = stats.ttest_rel(*gains)
        assert check.result.difference == pytest.approx(np.mean(gains[0] - gains[1]))
        assert check.p == pytest.approx(expected.pvalue)
        assert check.result.interval == pytest.approx(expected.confidence_interval(0.95))
        assert check.spread == pytest.approx(np.std(gains[0] - gains[1], ddof=1))
    shown = check_rows([verdict])[0]
    assert shown[3] == "(sharprecl - ce) test/macro_f1_head - (sharprecl - ce) test/macro_f1_middle"
    assert "less the same in test/macro_f1_middle, test/macro_f1_tail" in claim_row(verdict, "cpu")[1]
    of_rows = judge(claim(metrics=GAINS["metrics"], against_rows=("ce", "sharprecl")), report).checks[0]
    assert of_rows.result.difference == pytest.approx(200 * np.mean(values["sharprecl", "head"] - values["ce", "head"]))
    mirrored = judge(claim(metrics=("test/macro_f1_middle",), against_metrics=("test/macro_f1_head",)), report)
    level = judge(claim(metrics=("test/macro_f1_head",)), report)
    gained, reverse, alone = one_p([verdict, mirrored, level])
    assert reverse.verdict == "contradicted" and reverse.checks[0].holm_p == gained.checks[0].holm_p
    assert alone.checks[0].holm_p == level.checks[0].p, "a level is another comparison"


def test_gains_that_are_equal_but_for_rounding_are_no_difference(report, monkeypatch):
    values = {"sharprecl_head": (0.55, 0.45, 0.45), "ce_head": (0.35, 0.29, 0.4)}
    values |= {"sharprecl_middle": (0.51, 0.54, 0.33), "ce_middle": (0.31, 0.38, 0.28)}
    monkeypatch.setattr(
        TableReport, "values", lambda self, row, _, key: dict(enumerate(values[f"{row}_{key.split('_')[-1]}"]))
    )
    monkeypatch.setattr(claims, "_rivals", lambda *_: ["ce"])
    (check,) = judge(claim(metrics=GAINS["metrics"], against_metrics=("test/macro_f1_middle",)), report).checks
    assert check.p is None and check.outcome == "open" and check.spread == 0


@pytest.mark.slow
def test_kept_predictions_give_a_bootstrap_over_seeds_and_test_rows(entries, tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    labels = np.repeat(["a", "b", "c"], (60, 30, 10))
    for row, share in (("ce", 0.6), ("sharprecl", 0.8)):
        for seed in range(5):
            predicted = np.where(rng.random(100) < share, labels, "a")
            rows = [(n, "test", *pair) for n, pair in enumerate(zip(labels, predicted, strict=True))]
            RunFolder(tmp_path / f"records/{row}-{seed}").write_csv(
                "predictions.csv", rows, ("index", "split", "label", "prediction")
            )
    runs = {folder.name: RunFolder(folder) for folder in (tmp_path / "records").iterdir()}
    report = table_report(load_grid("sharprecl_2"), entries, runs)
    assert judge(claim(), report, runs).checks[0].bootstrap is None, "of five seeds"
    monkeypatch.setattr(predicted_rows, "LEAST_SEEDS", 5)
    (check,) = judge(claim(), report, runs).checks
    assert 0 < check.bootstrap.interval[0] < check.bootstrap.interval[1] < 30 and check.bootstrap.p < 0.05
    assert judge(claim(), report).checks[0].bootstrap is None, "without predictions"
    read_elsewhere = [replace(row, reads={"test/accuracy": "test/retrieval_accuracy"}) for row in report.grid.rows]
    of_neighbours = replace(report, grid=replace(report.grid, rows=tuple(read_elsewhere)))
    assert judge(claim(), of_neighbours, runs).checks[0].bootstrap is None, "no record has what neighbours predict"
    a, b = ({seed: f"{row}-{seed}" for seed in range(5)} for row in ("sharprecl", "ce"))
    head, tail = (predicted_rows.bootstrap_of(a, b, [f"test/macro_f1_{third}"], runs) for third in ("head", "tail"))
    gains = predicted_rows.bootstrap_of(a, b, ["test/macro_f1_tail", "test/macro_f1_head"], runs)
    assert gains.interval[0] < np.mean(tail.interval) - np.mean(head.interval) < gains.interval[1]
    make_run(tmp_path / "records", "ce-0", 0, 0.6, class_counts=[10, 20, 30])
    assert predicted_rows.bootstrap_of(a, b, ["test/macro_f1_head"], runs) is None, "other thirds"


def test_the_bootstrap_is_of_one_class_a_text_and_no_answer_is_none_of_them(tmp_path, monkeypatch):
    monkeypatch.setattr(predicted_rows, "LEAST_SEEDS", 2)
    labels, header = ["a", "a", "b", "b"], ("index", "label", "prediction")
    predicted = {"right": labels, "silent": ["a", "a", "", ""]}
    runs = {name: make_run(tmp_path, name, 0, 0.5) for name in predicted}
    for name, answers in predicted.items():
        runs[name].write_csv("predictions.csv", list(zip(range(4), labels, answers, strict=True)), header)
    a, b = (dict.fromkeys(range(2), name) for name in predicted)
    result = predicted_rows.bootstrap_of(a, b, ["test/macro_f1"], runs)
    assert result.interval == pytest.approx((50, 50)), "of a and b, whose F1 are 1 and 0"
    make_run(tmp_path, "silent", 0, 0.5, **{"test/hamming_loss": 0.1})
    assert predicted_rows.bootstrap_of(a, b, ["test/macro_f1"], runs) is None, "lists of labels"


@pytest.mark.parametrize(("a", "b", "verdict"), [("ce", "dice", "holds"), ("dice", "ce", "contradicted")])
def test_the_steadier_of_two_rows(report, monkeypatch, a, b, verdict):
    values = {"ce": (0.60, 0.61, 0.60, 0.61, 0.60), "dice": (0.50, 0.71, 0.52, 0.70, 0.53)}
    monkeypatch.setattr(TableReport, "values", lambda self, row, *_: dict(enumerate(values[row])))
    actual = judge(claim(test="steadier", a=a, b=(b,)), report)
    assert actual.verdict == verdict
    spreads = [100 * np.std(values[row], ddof=1) for row in (a, b)]
    assert actual.checks[0].result.difference == pytest.approx(spreads[0] - spreads[1])


def test_a_claim_without_runs_says_which_comparisons_lack_them(report):
    verdict = judge(claim(b=("ce", "dice")), report)
    assert verdict.wanting == (("dice", "trec_50", "test/accuracy"),)
    row = claim_row(verdict, "cpu")
    assert row[2] == "holds in part; most of 2 asked (1 for it, 0 against, 0 open, 1 without runs)"
    assert row[3] == "+5.20" and row[-1].endswith("TABLE=sharprecl_2")


def test_a_claim_on_a_row_that_does_not_exist_is_refused(report):
    with pytest.raises(ReportError, match="claim c: sharprecl_2 has no nobody"):
        judge(claim(b=("nobody",)), report)
    with pytest.raises(ReportError, match="claim c: sharprecl_2 has no nowhere"):
        judge(claim(columns=("nowhere",)), report)


@pytest.mark.parametrize("first", load_claims(), ids=lambda first: first.key)
def test_every_claim_names_rows_and_metrics_of_its_table(first):
    grid = load_grid(first.table)
    rows = {row.key for row in grid.rows}
    assert {first.a, *first.b, *first.against_rows} - {"others", "0"} <= rows
    assert {*first.metrics, *first.against_metrics} <= {metric.key for metric in grid.metrics}
    assert set(first.columns) <= {column.key for column in grid.columns if column.overrides}
    assert first.test in get_args(claims.Test)
    within = ("equal", "differs", "not_below", "not_above")
    assert (first.margin > 0) == (first.test in within) and first.effect > 0
    assert 1 <= first.needed(8) <= 8 and first.needed(8) == {"all": 8, "most": 5, "6/8": 6}[first.quantifier]
