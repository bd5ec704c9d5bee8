"""The loss of cosine pairs against the pairs written out."""

import itertools

import pytest
import torch

from losses import CosinePairLoss


def test_it_is_the_mean_of_both_kinds():
    rows = torch.randn(7, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    labels = [0, 0, 1, 2, 1, 0, 2]
    errors: dict[bool, list[float]] = {True: [], False: []}
    for i, j in itertools.combinations(range(7), 2):
        cosine = float(rows[i] @ rows[j] / (rows[i].norm() * rows[j].norm()))
        same = labels[i] == labels[j]
        errors[same].append((cosine - same) ** 2)
    expected = sum(sum(kind) / len(kind) for kind in errors.values()) / 2
    assert CosinePairLoss()(rows, torch.tensor(labels)).item() == pytest.approx(expected)
    alone = CosinePairLoss()(rows[:2], torch.tensor([0, 1])).item()
    assert alone == pytest.approx(float(torch.nn.functional.cosine_similarity(rows[0], rows[1], dim=0) ** 2))


def test_without_a_pair_it_is_zero():
    rows = torch.ones(1, 3, requires_grad=True)
    CosinePairLoss()(rows, torch.tensor([0])).backward()
    assert rows.grad.abs().sum() == 0
