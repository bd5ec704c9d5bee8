"""Co-EM of embeddings and words where some labels are known."""

import numpy as np
import pytest
import torch

from lightning_modules.heads.co_training import co_trained_scores, evenness
from lightning_modules.heads.discriminant import best_discriminant
from tests.clustering.test_two_views import two_views


def started(sizes, labels_a_class=2):
    vectors, words, classes = two_views(sizes, spread=2.2)
    known = np.full(len(classes), -1)
    for c in range(len(sizes)):
        known[np.flatnonzero(classes == c)[:labels_a_class]] = c
    rows, labels = torch.from_numpy(vectors), torch.from_numpy(known)
    return rows, words, labels, best_discriminant(rows, labels, None, len(sizes)), torch.from_numpy(classes)


def test_words_mend_what_embeddings_mix_up_and_a_seed_gives_the_same_bits():
    rows, words, labels, start, classes = started([150] * 4)
    scores = co_trained_scores(rows, words, labels, start)
    unknown = labels < 0
    right = [(s.argmax(1) == classes)[unknown].double().mean() for s in (start.scores(rows), scores)]
    assert right[1] > right[0] + 0.1
    assert torch.equal(scores, co_trained_scores(rows, words, labels, start))


def test_labels_draw_texts_to_their_class_even_where_they_are_wrong():
    rows, words, labels, start, classes = started([150] * 4)
    wrong = labels.clone()
    wrong[labels == 0] = 1  # two rows of class 0 are said to be of class 1, and class 0 has no other
    told, misled = (co_trained_scores(rows, words, known, start).argmax(1) for known in (labels, wrong))
    of_first = (classes == 0) & (labels < 0)
    assert (misled == 1)[of_first].sum() > (told == 1)[of_first].sum()


def test_where_classes_are_of_very_different_sizes_the_start_says_all():
    rows, words, labels, start, _ = started([500, 20, 20, 20], labels_a_class=8)
    assert evenness(start.scores(rows).argmax(1), 4) < 0.85
    assert torch.equal(co_trained_scores(rows, words, labels, start), start.scores(rows))


def test_evenness_by_hand():
    assert evenness(torch.tensor([0, 1, 2, 0, 1, 2]), 3) == pytest.approx(1)
    assert evenness(torch.tensor([0, 0, 1, 1]), 4) == pytest.approx(0.5)  # two of four, of one size
    assert evenness(torch.tensor([0, 0, 0, 1]), 2) == pytest.approx(2 ** (0.75 * np.log2(4 / 3) + 0.5) / 2)
