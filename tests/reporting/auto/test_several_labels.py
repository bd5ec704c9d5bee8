"""Figures of several labels against scikit-learn and against slow loops, and a report over them."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import f1_score

from reporting import several_labels
from reporting.auto.evidence import read_evidence
from reporting.auto.ranking import OutOfFold
from reporting.auto.report import write_report
from tests.reporting.auto.folders import write_folder

SHARES = np.array([0.5, 0.3, 0.1, 0.03])


def answered(rng, rows=200, repeats=2, skill=0.9):
    """Labels (N, C) and answers (R, N, C), each right with the chance `skill`."""
    labels = rng.random((rows, len(SHARES))) < SHARES
    return labels, labels ^ (rng.random((repeats, *labels.shape)) > skill)


def test_figures_are_the_mean_of_scikit_learns_over_repeats():
    labels, answers = answered(np.random.default_rng(0))
    figures = several_labels.estimate(labels, answers)
    for name, average in (("micro_f1", "micro"), ("macro_f1", "macro"), ("f1", None)):
        expected = np.mean([f1_score(labels, repeat, average=average, zero_division=0) for repeat in answers], axis=0)
        assert getattr(figures, name)[0] == pytest.approx(expected)


def test_resampled_figures_lie_around_those_of_the_rows():
    """Pseudo-rows of labels whose few rows are all missed would move macro-F1 up."""
    labels = np.zeros((200, 20), bool)
    labels[np.arange(40), np.arange(40) // 2] = labels[:100, 0] = True
    answers = labels & (np.arange(20) < 10)
    draws = several_labels.bootstrap(labels, answers[None], np.random.default_rng(0), draws=400)
    whole = several_labels.estimate(labels, answers[None])
    assert draws.macro_f1.mean() == pytest.approx(whole.macro_f1[0], abs=1e-6)
    assert draws.micro_f1.mean() == pytest.approx(whole.micro_f1[0], abs=1e-2)


def test_exchanged_answers_are_those_of_a_loop():
    rng = np.random.default_rng(1)
    labels, first = answered(rng, rows=30, skill=0.8)
    second = answered(rng, rows=30, skill=0.8)[1]
    swaps = np.random.default_rng(2).integers(0, 2, (40, int((first != second).any(axis=(0, 2)).sum())))
    differs = np.flatnonzero((first != second).any(axis=(0, 2)))
    differences = []
    for swap in swaps:
        one, two = first.copy(), second.copy()
        for row, is_swapped in zip(differs, swap, strict=True):
            if is_swapped:
                one[:, row], two[:, row] = second[:, row], first[:, row]
        pair = [np.mean([f1_score(labels, repeat, average="macro") for repeat in side]) for side in (one, two)]
        differences.append(pair[0] - pair[1])
    difference, p, error = several_labels.difference_test(labels, first, second, np.random.default_rng(2), draws=40)
    assert error == pytest.approx(np.std(differences))
    extreme = np.sum(np.abs(differences) >= abs(difference) - 1e-12)
    assert p == pytest.approx((1 + extreme) / 41)
    assert several_labels.difference_test(labels, first, first, rng) == (0.0, 1.0, 0.0)


def test_rows_of_one_text_are_one_row():
    labels, first = answered(np.random.default_rng(4), rows=80)
    second, groups = answered(np.random.default_rng(5), rows=80)[1], np.tile(np.arange(80), 3)
    copied = np.tile(labels, (3, 1)), np.tile(first, (1, 3, 1)), np.tile(second, (1, 3, 1))
    draws = several_labels.bootstrap(labels, first, np.random.default_rng(6), 200)
    of_copies = several_labels.bootstrap(*copied[:2], np.random.default_rng(6), 200, groups)
    for name in several_labels.FIGURES:
        assert getattr(of_copies, name) == pytest.approx(getattr(draws, name))
    test = several_labels.difference_test(labels, first, second, np.random.default_rng(7), 200)
    assert several_labels.difference_test(*copied, np.random.default_rng(7), 200, groups) == pytest.approx(test)


def test_a_rare_label_that_is_always_right_does_not_look_sure():
    labels = np.zeros((100, 2), bool)
    labels[:50, 0] = labels[:4, 1] = True
    draws = several_labels.bootstrap(labels, labels[None], np.random.default_rng(0), draws=400)
    lower = np.quantile(draws.f1, 0.025, axis=0)
    assert lower[0] > 0.95 and lower[1] < 0.85


def test_a_report_of_several_labels(tmp_path):
    folder = write_folder(tmp_path / "auto-several")
    rows = pd.read_parquet(folder / "rows.parquet")
    rng = np.random.default_rng(3)
    labels, answers = answered(rng, len(rows), repeats=1, skill=0.95)
    data = json.loads((folder / "data.json").read_text()) | {"several_labels": True}
    names = np.array([entry["label"] for entry in data["classes"]], object)
    (folder / "data.json").write_text(json.dumps(data))
    rows["label"] = [names[row].tolist() for row in labels]
    rows.to_parquet(folder / "rows.parquet")
    for file in (folder / "out_of_fold").iterdir():
        given = answers[0] if file.stem != "majority" else np.broadcast_to(SHARES >= 0.5, labels.shape)
        probabilities = np.where(given, 0.8, 0.1) + rng.uniform(-0.1, 0.1, labels.shape)
        table = pd.DataFrame(probabilities, columns=[f"p_{c}" for c in range(len(SHARES))])
        table = table.assign(row=rows["row"], repeat=0, fold=rows["row"] % 5)
        table["label"], table["answer"] = ([np.flatnonzero(row).tolist() for row in side] for side in (labels, given))
        table.to_parquet(file)
    write_report(folder)
    expected = f1_score(labels, answers[0], average="micro")
    ranking = pd.read_csv(folder / "ranking.csv")
    assert ranking.loc[ranking["recommended"], "micro_f1"].item() == pytest.approx(expected)
    best = ranking[ranking["recommended"]].iloc[0]
    seed = json.loads((folder / "question.json").read_text()).get("seed", 0)
    table = read_evidence(folder).out_of_fold[best["candidate"]]  # two of its rows have one text
    upper = np.quantile(table.resampled(seed).micro_f1, 0.975)
    assert best["micro_f1_upper"] - expected == pytest.approx(several_labels.WIDENED * (upper - expected))
    missed_for = (labels[:, 0] & ~answers[0][:, 0]) & (answers[0][:, 1] & ~labels[:, 1])
    confusion = pd.read_csv(folder / "confusion.csv").to_numpy()[:, 1:]
    assert confusion[0, 1] == missed_for.sum() and confusion[0, 0] == 0
    errors = pd.read_csv(folder / "errors.csv")
    assert len(errors) == (labels != answers[0]).any(axis=1).sum()
    assert json.loads(pd.read_csv(folder / "out_of_fold.csv")["label"][0]) == sorted(names[labels[0]])
    wrong = set(np.flatnonzero((labels != answers[0]).any(axis=1)) + 2)
    suspects = pd.read_csv(folder / "suspect_labels.csv")
    assert len(suspects) and set(suspects["line"]) <= wrong
    page = (folder / "index.html").read_text()
    assert "Pairs of labels" in page and "micro-F1" in page and 'class="matrix"' not in page
    table = OutOfFold.of(pd.read_parquet(folder / "out_of_fold" / "ce.parquet"))
    assert (table.labels == labels).all() and (table.answers[0] == answers[0]).all()
