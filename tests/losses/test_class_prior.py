"""Class weights: golden values, direction, refusals."""

import pytest
import torch

from losses import (
    class_weights,
    effective_number_weights,
    inverse_frequency_weights,
    log_prior,
    negative_log_prior_weights,
)


def test_golden(golden):
    case = golden("class_weights")
    counts, expected = torch.tensor(case["inputs"]["class_counts"]), case["expected"]
    assert effective_number_weights(counts, case["inputs"]["beta"]).tolist() == pytest.approx(
        expected["effective_number"], abs=1e-10
    )
    assert log_prior(counts).tolist() == pytest.approx(expected["log_prior"], abs=1e-10)
    assert negative_log_prior_weights(counts).tolist() == pytest.approx(expected["neg_log_prior"], abs=1e-10)


@pytest.mark.parametrize("kind", ["effective_number", "negative_log_prior"])
def test_rarer_classes_weigh_more(kind):
    weights = class_weights(torch.tensor([1, 7, 300, 1_000_000]), kind)
    assert (weights > 0).all() and (weights.diff() < 0).all()


def test_none_and_beta_zero_weigh_all_alike():
    counts = torch.tensor([1, 7, 300])
    assert class_weights(counts, "none").tolist() == [1, 1, 1]
    assert effective_number_weights(counts, beta=0.0).tolist() == [1, 1, 1]


def test_an_absent_class_counts_for_nothing_where_rows_are_weighed_by_their_own_class():
    counts = torch.tensor([6, 0, 2])
    weights = inverse_frequency_weights(counts)
    assert weights.tolist() == pytest.approx([8 / 12, 0, 2]) and (weights * counts).sum() == 8


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="got 0 for class 1"):
        log_prior(torch.tensor([3, 0, 2]))
    with pytest.raises(ValueError, match=r"beta must be in \[0, 1\), got 1"):
        effective_number_weights(torch.tensor([3]), beta=1)
    with pytest.raises(ValueError, match="class_weight must be one of effective_number.*got 'inverse'"):
        class_weights(torch.tensor([3]), "inverse")
