"""The command line of the race of few labels, and the spread that it prints."""

import pytest

from benchmarks import few_labels


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


def test_the_spread_over_draws_is_that_of_a_sample():
    assert few_labels.mean_and_spread((0.5, 0.7)) == "60.0 ± 14.1"
    assert few_labels.mean_and_spread((0.5,)) == "50.0"
