"""The command line of the race of few labels, the runs that it makes, and the spread that it prints."""

from types import SimpleNamespace

import pytest

from benchmarks import few_labels
from engine.composition import target_class
from engine.plan import Plan


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--seeds", "0"], "argument --seeds: found 0, allowed: a whole number above 0"),
        (["--dataset", "unknown"], "argument --dataset: invalid choice: 'unknown'"),
    ],
)
def test_bad_words_are_said(monkeypatch, capsys, words, problem):
    monkeypatch.setattr("sys.argv", ["few_labels", *words])
    with pytest.raises(SystemExit):
        few_labels.main()
    assert problem in capsys.readouterr().err


def test_every_method_is_a_run_that_learns_from_all_that_its_row_says():
    options = SimpleNamespace(dataset="trec", labels_per_class=8, threads=1)
    for words, reads in few_labels.METHODS.items():
        plan = Plan.make(few_labels.composed(options, words, 0, "/tmp"))
        assert bool(target_class(plan.plain["method"]).reads_unlabelled) == ("U" in reads), words
        assert plan.plain["method"].get("use_names", False) == ("N" in reads), words


def test_the_spread_over_draws_is_that_of_a_sample():
    assert few_labels.mean_and_spread((0.5, 0.7)) == "60.0 ± 14.1"
    assert few_labels.mean_and_spread((0.5,)) == "50.0"
