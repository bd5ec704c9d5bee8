"""Co-EM of embeddings and words where some labels are known."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import SGDClassifier

from clustering.two_views import PENALTY
from lightning_modules.heads.co_training import co_trained, fitted_views, word_share
from lightning_modules.heads.discriminant import at_least, best_discriminant, evenness, fitted_gaussians
from lightning_modules.heads.stacking import comparable
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
    scores = co_trained(rows, words, labels, start).scores
    unknown = labels < 0
    right = [(s.argmax(1) == classes)[unknown].double().mean() for s in (start.scores(rows), scores)]
    assert right[1] > right[0] + 0.1
    assert torch.equal(scores, co_trained(rows, words, labels, start).scores)


def test_labels_draw_texts_to_their_class_even_where_they_are_wrong():
    rows, words, labels, start, classes = started([150] * 4)
    wrong = labels.clone()
    wrong[labels == 0] = 1  # two rows of class 0 are said to be of class 1, and class 0 has no other
    told, misled = (co_trained(rows, words, known, start).scores.argmax(1) for known in (labels, wrong))
    of_first = (classes == 0) & (labels < 0)
    assert (misled == 1)[of_first].sum() > (told == 1)[of_first].sum()


def test_where_classes_are_of_very_different_sizes_the_start_says_all():
    rows, words, labels, start, _ = started([500, 20, 20, 20], labels_a_class=8)
    assert evenness(start.scores(rows).argmax(1), 4) < 0.85
    texts = co_trained(rows, words, labels, start)
    assert torch.equal(texts.scores, start.scores(rows)) and texts.is_fitted is None


def test_the_last_fit_is_of_labelled_and_surest_texts_and_words_count_by_the_texts_of_a_class():
    rows, words, labels, start, classes = started([150] * 4)
    texts = co_trained(rows, words, labels, start)
    discriminant, word_weight = fitted_views(rows, words, labels, texts)

    known, fitted = labels >= 0, texts.is_fitted
    assigned = torch.where(known, labels, texts.scores.argmax(1))
    assert bool(fitted[known].all()) and assigned[fitted & ~known].bincount().max() <= 150 < assigned.bincount().max()
    weights = torch.where(known, 5.0, 1.0)[fitted]
    directions, offsets, _ = fitted_gaussians(rows[fitted].double(), weights.double(), assigned[fitted], 4, 0.1)
    regression = SGDClassifier(loss="log_loss", alpha=PENALTY, random_state=0)
    regression.fit(words[fitted.numpy()], assigned[fitted].numpy(), sample_weight=weights.double().numpy())
    of_words = torch.from_numpy(words @ regression.coef_.T + regression.intercept_)
    expected = comparable(rows.double() @ directions.T + offsets) + 150 / 200 * comparable(of_words)

    ours = discriminant.scores(rows) + torch.from_numpy(words @ word_weight.numpy().T)
    ours = ours.double() - ours.double().mean(1, keepdim=True)
    assert torch.allclose(ours / ours.std(), expected / expected.std(), atol=1e-4)
    assert (ours.argmax(1) == classes).double().mean() > 0.9


def test_words_of_few_texts_count_less():
    assert [word_share(number, 4) for number in (4, 400, 800, 8000)] == [0.005, 0.5, 1, 1]
    rows, words, labels, start, _ = started([30] * 4)
    scores, known = co_trained(rows, words, labels, start, steps=1).scores, labels >= 0
    assigned = torch.where(known, labels, start.scores(rows).argmax(1))
    weights = torch.where(known, 5.0, 1.0).double()
    directions, offsets, _ = fitted_gaussians(rows.double(), weights, assigned, 4, at_least(0.1, rows))
    of_words = scores - comparable(rows.double() @ directions.T + offsets)
    assert float(of_words.std()) == pytest.approx(30 / 200, rel=1e-2)


def test_evenness_by_hand():
    assert evenness(torch.tensor([0, 1, 2, 0, 1, 2]), 3) == pytest.approx(1)
    many = [400, 400, 100, 100]  # of each class: nothing to correct
    assert evenness(torch.arange(4).repeat_interleave(torch.tensor(many)), 4) == pytest.approx(
        2 ** (-2 * (0.4 * np.log2(0.4) + 0.1 * np.log2(0.1))) / 4, rel=2e-3
    )
    assert evenness(torch.tensor([0, 0, 1, 1]), 4) == pytest.approx(0.5 * np.exp(1 / 8))  # two of four, of one size
    generator = torch.Generator().manual_seed(0)
    drawn = [evenness(torch.randint(77, (231,), generator=generator), 77) for _ in range(50)]
    assert 0.93 < np.mean(drawn) < 1  # 0.83 without the correction
