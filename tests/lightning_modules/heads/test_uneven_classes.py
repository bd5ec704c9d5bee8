"""Few labels of each class alike, and classes of very different sizes."""

import math

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score

from lightning_modules.heads.discriminant import best_discriminant
from lightning_modules.heads.uneven_classes import class_shares, fitted_sources, labels_suffice, weighed_sources
from tests.clustering.test_two_views import two_views


def started(sizes, labels_a_class=10, spread=2.2):
    vectors, words, classes = two_views(sizes, spread=spread)
    known = np.full(len(classes), -1)
    for c in range(len(sizes)):
        known[np.flatnonzero(classes == c)[:labels_a_class]] = c
    return torch.from_numpy(vectors), words, torch.from_numpy(known), torch.from_numpy(classes)


def test_class_shares_against_a_loop():
    logits = torch.randn(40, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 2
    shares = [1 / 3] * 3
    for _ in range(7):
        sums = [0.0] * 3
        for row in logits.tolist():
            odds = [math.exp(value) * share for value, share in zip(row, shares, strict=True)]
            sums = [total + odd / sum(odds) for total, odd in zip(sums, odds, strict=True)]
        shares = [0.9 * total / 40 + 0.1 / 3 for total in sums]
    assert class_shares(logits, steps=7, floor=0.1).tolist() == pytest.approx(shares, rel=1e-10)


def test_class_shares_of_calibrated_logits_are_those_of_the_texts():
    rng = np.random.default_rng(0)
    classes = rng.choice(3, 4000, p=[0.8, 0.15, 0.05])
    values = rng.normal(size=4000) + np.array([-2.0, 0.0, 2.0])[classes]
    densities = -((torch.from_numpy(values)[:, None] - torch.tensor([-2.0, 0.0, 2.0])) ** 2) / 2
    assert class_shares(densities, floor=0.0).tolist() == pytest.approx([0.8, 0.15, 0.05], abs=0.02)


@pytest.mark.parametrize(
    ("labels", "num_classes", "suffice"),
    [
        ([0] * 16 + [1] * 16, 2, True),
        ([0] * 16 + [1] * 15, 2, False),  # 31
        ([0] * 30 + [1] * 6, 2, False),  # 30 and 6 say that one class is larger
        (list(range(10)) * 3 + [-1] * 90, 10, False),  # three of each: a fold would have none
        (list(range(10)) * 4 + [-1] * 90, 10, True),
    ],
)
def test_labels_suffice_where_they_are_enough_and_of_each_class_alike(labels, num_classes, suffice):
    assert labels_suffice(torch.tensor(labels), num_classes) == suffice


def test_both_regressions_are_those_of_scikit_learn_and_no_class_that_is_withheld_is_impossible():
    rows, words, labels, _ = started([60] * 4)
    labels[labels == 3] = -1
    start = best_discriminant(rows, labels.where(labels >= 0, labels), torch.eye(4, 20), 4)
    sources = fitted_sources(rows, words, labels, 4, start)
    known = (labels >= 0).numpy()
    of_embeddings = LogisticRegression(C=10, max_iter=1000, tol=1e-8).fit(rows[known], labels[known])
    of_words = LogisticRegression(C=30, max_iter=1000, tol=1e-8).fit(words[known], labels[known])
    _, ours, ours_of_words = (values[:, :3].softmax(1).numpy() for values in sources.scores(rows, words))
    assert np.allclose(ours, of_embeddings.predict_proba(rows), atol=2e-3)
    assert np.allclose(ours_of_words, of_words.predict_proba(words), atol=5e-3)
    assert float(sources.word_bias.min()) > -10


def test_the_sum_tells_more_than_any_source_where_classes_are_of_very_different_sizes():
    rows, words, labels, classes = started([600, 60, 40, 40])
    discriminant = lambda known: best_discriminant(rows, known, None, 4)  # noqa: E731
    results = [weighed_sources(rows, words, labels, 4, discriminant, torch.Generator().manual_seed(0)) for _ in "ab"]
    (solution, word_weight, weights), again = results
    unknown = labels < 0
    alone = fitted_sources(rows, words, labels, 4, discriminant(labels)).scores(rows, words)
    scores = [*alone, solution.scores(rows) + torch.from_numpy(words @ word_weight.numpy().T)]
    *parts, both = (f1_score(classes[unknown], s.argmax(1)[unknown], average="macro") for s in scores)
    assert both > max(parts) + 0.05
    assert bool((weights >= 0).all()) and torch.equal(weights, again[2])
    assert torch.equal(solution.weight, again[0].weight)
