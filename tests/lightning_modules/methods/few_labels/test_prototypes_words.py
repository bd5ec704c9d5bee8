"""method=prototypes_words through a whole run: both views label the test rows, and new files alike."""

import pytest
import torch

from tests.command_lines import best_weights, rows


@pytest.mark.slow
def test_words_count_in_the_test_rows_and_in_new_files(solve, use, toy_csv, tmp_path):
    run = solve("method=prototypes_words", "dataset.labels=12")
    assert run.code == 0, run.err
    assert run.metrics["solver/word_steps"] == 3 and run.metrics["reads"] == "NU"
    weights = best_weights(run.folder)
    assert bool(weights["words.weight"].abs().sum(1).gt(0).all())
    assert run.metrics["test/accuracy"] > solve("method=prototypes", "dataset.labels=12").metrics["test/accuracy"]
    assert use("predict", run, f"input={toy_csv['test']}", f"output={tmp_path}/p.csv").code == 0
    stored = [row for row in rows(run.folder / "predictions.csv") if row["split"] == "test"]
    assert [row["prediction"] for row in rows(tmp_path / "p.csv")] == [row["prediction"] for row in stored]


@pytest.mark.slow
def test_with_a_label_on_every_text_it_is_prototypes(solve):
    runs = [solve(f"method={name}") for name in ("prototypes", "prototypes_words")]
    ours, theirs = (best_weights(run.folder) for run in runs)
    assert runs[1].metrics["solver/word_steps"] == 0 and runs[1].metrics["reads"] == "N"
    assert not bool(theirs["words.weight"].any())
    assert torch.equal(ours["classifier.weight"], theirs["classifier.weight"])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (["method.word_steps=0"], "method.word_steps: found 0; allowed: a whole number >= 1"),
        (["retrieval=knn"], "retrieval: has no effect with method=prototypes_words; allowed: retrieval=null"),
        (["protocol=clean"], "protocol: found clean; allowed with method=prototypes_words: fixed"),
    ],
)
def test_bad_input(solve, line, message):
    assert solve("method=prototypes_words", *line).error.startswith(message)
