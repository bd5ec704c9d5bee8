"""`head=text_to_text` at the command line: figures with unparsable answers, every method it takes, active learning."""

import numpy as np
import pytest

from tests.command_lines import rows
from tests.t5 import tiny_t5

pytestmark = pytest.mark.slow


@pytest.fixture
def answer(fit, tmp_path):
    """Train the head on the toy CSV with a tiny T5."""
    path = tiny_t5(tmp_path / "t5")
    options = ["head=text_to_text", f"encoder.path={path}", "optimizer.lr=3e-3", "trainer.max_epochs=2"]
    return lambda *words: fit(*options, *words)


def test_answers_that_are_no_class_are_errors_and_are_reported(answer, fit, use, tmp_path):
    result = answer("method=scl_hnm")
    test = [row for row in rows(result.folder / "predictions.csv") if row["split"] == "test"]
    unparsable = np.mean([row["prediction"] == "" for row in test])
    right = np.mean([row["prediction"] == row["label"] for row in test])
    assert 0 < unparsable <= 1  # two epochs are too few to learn how to answer
    assert result.metrics["test/unparsable"] == pytest.approx(unparsable)
    assert result.metrics["test/accuracy"] == pytest.approx(right)
    assert f"{100 * unparsable:.2f} % of the answers are no class" in result.out
    assert result.metrics["reads"] == "N" and "this run (N)" in result.out
    assert " · text_to_text · seed 0" in result.out  # its figures do not compare with those of another head
    linear = ["encoder=flan_t5_base", f"encoder.path={tmp_path / 't5'}", "encoder.sha256=null", "method=scl_hnm"]
    assert "found head=text_to_text; allowed: head=None" in fit(*linear, f"start_from={result.folder.name}").error
    assert use("evaluate", result).code == 0
    assert "task=export: found head=text_to_text" in use("export", result).error
    as_first = answer("method=scl_hnm", "head.unparsable=first_class")
    assert as_first.metrics["test/unparsable"] == 0
    assert as_first.metrics["test/accuracy"] >= result.metrics["test/accuracy"]


def test_strategies_read_probabilities_over_label_words(answer):
    words = ["active.query_size=8", "active.budget=16", "trainer.max_epochs=1", "head.scores=first_token"]
    result = answer("method=ce", "active=rep_clun", *words)
    chosen = rows(result.folder / "chosen.csv")
    assert len({row["position"] for row in chosen}) == 16
    assert len({row["score"] for row in chosen if row["round"] == "1"}) > 1  # entropies
    assert 0 <= result.metrics["test/unparsable"] <= 1
