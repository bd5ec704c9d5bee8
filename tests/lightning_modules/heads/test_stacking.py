"""Stacking: what one classifier more says counts for what it says of rows that it has not seen."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

from lightning_modules.heads.stacking import comparable, fold_numbers, stacking_weights


@given(st.lists(st.integers(0, 4), min_size=1, max_size=60), st.integers(2, 5), st.integers(0, 100))
def test_folds_share_out_each_class_and_copies_are_in_one(labels, num_folds, seed):
    labels, places = torch.tensor(labels), torch.arange(len(labels))
    folds = fold_numbers(labels, places, num_folds, torch.Generator().manual_seed(seed))
    again = fold_numbers(labels.repeat(2), places.repeat(2), num_folds, torch.Generator().manual_seed(seed))
    assert torch.equal(again, folds.repeat(2))
    for rows in (torch.ones_like(labels, dtype=torch.bool), *(labels == c for c in range(5))):
        sizes = folds[rows].bincount(minlength=num_folds)
        assert sizes.max() - sizes.min() <= 1 and len(sizes) == num_folds


def test_weights_are_at_the_minimum_and_never_below_zero():
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(3, (200,), generator=generator)
    noise = torch.randn(4, 200, 3, generator=generator)
    signal = functional.one_hot(labels, 3)
    scores = torch.stack([comparable(noise[0] + signal), comparable(noise[1] + 2 * signal), comparable(noise[2])])
    scores = torch.cat([scores, comparable(noise[3] - signal)[None]])
    weights = stacking_weights(scores, labels)

    def value(point):
        logits = sum(weight * part for weight, part in zip(point, scores, strict=True))
        return functional.cross_entropy(logits, labels) + 0.01 * point.square().sum()

    assert weights[1] > weights[0] > 4 * weights[2] and weights[3] == 0 and (weights >= 0).all()
    for place in range(4):
        for step in (-1e-3, 1e-3):
            moved = weights.clone()
            moved[place] = (moved[place] + step).clamp_min(0)
            assert value(moved) >= value(weights) - 1e-9


def test_comparable_scores_are_centred_with_spread_one():
    scores = torch.randn(50, 4, generator=torch.Generator().manual_seed(0)) * 7 + 3
    ours = comparable(scores)
    assert ours.mean(1).abs().max() < 1e-6 and float(ours.std()) == pytest.approx(1)
    torch.testing.assert_close(ours, comparable(2 * scores + torch.arange(50)[:, None]), atol=1e-5, rtol=0)
    assert not comparable(torch.ones(3, 2)).any()


def test_where_no_source_tells_the_labels_all_count_alike():
    """Weights of 0 would give every text the first class."""
    labels = torch.arange(30) % 3
    wrong = torch.nn.functional.one_hot((labels + 1) % 3, 3).double()
    assert stacking_weights(torch.stack([comparable(wrong), comparable(wrong)]), labels).tolist() == [1.0, 1.0]
