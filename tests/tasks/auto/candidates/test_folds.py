"""Folds: what their rows may and may not decide, and what is kept of them."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from scipy.special import expit, log_softmax, logit

from lightning_modules.heads.tfidf import logistic_regression
from reporting.multilabel_metrics import best_threshold, multilabel_metrics
from tasks.auto.candidates import cheap
from tasks.auto.candidates.calibration import LOG_ODDS, best_scale, calibrated, cross_entropy, label_thresholds
from tasks.auto.candidates.folds import FoldOutcome, cheap_fold, cross_calibrated, each_fold, load_outcome

COUNTS = [40, 20, 10]


@pytest.fixture(scope="module")
def blobs():
    """Embeddings (70, 8) of three classes that overlap a little, labels, texts."""
    rng = np.random.default_rng(0)
    labels = rng.permutation(np.repeat(np.arange(3), COUNTS))
    rows = rng.normal(size=(70, 8)) + 2.5 * np.eye(3, 8)[labels]
    return rows.astype(np.float32), labels, np.array([f"text {row}" for row in range(70)], dtype=object)


def paths(blobs):
    names, others = np.eye(3, 8), np.repeat(blobs[0], 2, axis=0)
    return {
        "majority": cheap.majority,
        "nearest_name": cheap.nearest_name(names),
        "logistic": cheap.logistic,
        "prototypes": cheap.prototypes(None),
        "neighbours": cheap.neighbours,
        "linear_words": cheap.Added((("embeddings", cheap.logistic), ("counts", cheap.words))),
        "words_unlabelled": cheap.co_trained_views(names, read_by("words_unlabelled", others)),
    }


def read_by(name, rows):
    """Rows as a candidate takes them; of words each dimension is one that occurs where it is large."""
    return cheap.TextRows(cheap.unit_rows(rows), csr_matrix(rows > 1, dtype=float)) if "words" in name else rows


@pytest.mark.parametrize(
    "name",
    ["majority", "nearest_name", "logistic", "prototypes", "neighbours", "linear_words", "words_unlabelled"],
)
def test_the_labels_of_a_fold_decide_nothing(blobs, name):
    (rows, labels, texts), path = blobs, paths(blobs)[name]
    rows = read_by(name, rows)
    test = each_fold(labels, list(texts), 5, 0)[1]
    outcome, _ = cheap_fold(path, rows, labels, texts, test, 3)
    others = labels.copy()
    others[test] = (labels[test] + 1) % 3
    again, _ = cheap_fold(path, rows, others, texts, test, 3)
    assert np.array_equal(outcome.probabilities, again.probabilities)
    assert np.allclose(outcome.probabilities.sum(1), 1)
    right = (outcome.probabilities.argmax(1) == labels[test]).mean()
    assert right > (0.5 if name == "majority" else 0.7)


@pytest.mark.parametrize("name", ["logistic", "linear_words"])
def test_several_labels_of_a_fold_decide_nothing(blobs, name):
    """Each text has the label of its class, and another by chance."""
    rows, classes, texts = blobs
    labels = (np.eye(3)[classes] + (np.random.default_rng(1).random((70, 3)) < 0.1) > 0).astype(np.int64)
    path = {"logistic": cheap.label_by_label, "linear_words": cheap.Stacked(np.eye(3, 8))}[name]
    test = each_fold(labels, list(texts), 5, 0)[1]
    others = labels.copy()
    others[test] = 1 - labels[test]
    outcome, again = (cheap_fold(path, read_by(name, rows), bits, texts, test, 3)[0] for bits in (labels, others))
    assert np.array_equal(outcome.probabilities, again.probabilities)
    assert np.array_equal(outcome.thresholds, again.thresholds)
    assert (outcome.answers == labels[test]).mean() > 0.8


def test_the_threshold_of_a_rare_label_is_nearer_to_that_of_all():
    """Labels of 40, 5 and no rows."""
    rng = np.random.default_rng(0)
    labels = np.zeros((200, 3), int)
    labels[:40, 0], labels[20:25, 1] = 1, 1
    probabilities = expit(rng.normal(size=(200, 3)) + 2.0 * labels - 2)
    figures = [multilabel_metrics(labels[:, :2], probabilities[:, :2], t)["macro_f1"] for t in expit(LOG_ODDS)]
    shared = LOG_ODDS[int(np.argmax(figures))]
    own = logit(best_threshold(labels, probabilities, "per_label"))
    share = np.array([40 / 45, 5 / 10, 0])
    assert label_thresholds(labels, probabilities) == pytest.approx(expit(share * own + (1 - share) * shared))


def test_without_validation_rows_a_fold_is_calibrated_on_the_others_alone(blobs):
    rows, labels, texts = blobs
    logits = 40 * rows[:, :3]  # far too sure
    outcomes = [
        FoldOutcome(test, np.eye(3)[logits[test].argmax(1)], np.nan, 1.0, 1.0, logits=logits[test])
        for test in each_fold(labels, list(texts), 5, 0)
    ]
    wrong = labels.copy()
    wrong[outcomes[1].rows] = (labels[outcomes[1].rows] + 1) % 3
    actual, again = cross_calibrated(outcomes, labels), cross_calibrated(outcomes, wrong)
    same = [np.array_equal(a.probabilities, b.probabilities) for a, b in zip(actual, again, strict=True)]
    assert same == [False, True, False, False, False]
    probabilities = np.concatenate([outcome.probabilities for outcome in actual])
    truth = labels[np.concatenate([outcome.rows for outcome in actual])]
    loss = -np.log(probabilities[np.arange(len(truth)), truth]).mean()
    assert loss < 1.1 * cross_entropy(np.log(probabilities), truth)  # at the temperature that suits them best
    others = np.setdiff1d(np.arange(len(labels)), outcomes[0].rows)
    expected = calibrated(logits[others], labels[others], np.bincount(labels[others]), is_solved=True)
    np.testing.assert_allclose(actual[0].probabilities, expected.probabilities(logits[outcomes[0].rows]), atol=1e-6)
    assert cross_calibrated(outcomes[:1], labels)[0] is outcomes[0]


def test_without_validation_rows_a_class_of_one_row_does_not_spoil_the_others():
    """Its own fold has never shown it, so that its logit there is the lowest."""
    labels = np.array([2, *np.tile([0, 1], 50)])
    logits = np.stack([labels == 0, labels == 1, labels == 2], 1) * 4.0
    logits[0] = [4.0, 0.0, 0.0]
    outcomes = [
        FoldOutcome(rows, np.eye(3)[logits[rows].argmax(1)], np.nan, 1.0, 1.0, logits=logits[rows])
        for rows in np.array_split(np.arange(101), 5)
    ]
    surest = np.concatenate([outcome.probabilities.max(1) for outcome in cross_calibrated(outcomes, labels)])
    assert np.median(surest) > 0.8


def test_a_threshold_on_the_vote_is_that_on_its_probability():
    rows, labels = np.eye(3, dtype=np.float32)[[0, 0, 1]], np.array([0, 2, 1])
    scores = cheap.Neighbours(rows, labels, 3, 2, 1.0)(rows[:1])
    probability = np.exp(scores - np.logaddexp.reduce(scores, axis=1, keepdims=True))[0, 0]
    assert cheap.pure_vote(probability, 3) == pytest.approx(0.5, abs=1e-9)


@pytest.mark.parametrize("name", ["logistic", "prototypes", "neighbours", "linear_words"])
def test_a_class_without_a_train_row_is_never_predicted(blobs, name):
    rows, labels, texts = blobs
    lone = np.append(labels, 3)
    more = read_by(name, np.concatenate([rows, np.full((1, 8), 5, np.float32)]))
    outcome, _ = cheap_fold(paths(blobs)[name], more, lone, np.append(texts, "alone"), np.array([70]), 4)
    assert outcome.probabilities[0, 3] < 0.1


def test_what_is_kept_of_a_fold_comes_back_whole_or_not_at_all(blobs, tmp_path):
    rows, labels, texts = blobs
    outcome, _ = cheap_fold(cheap.majority, rows, labels, texts, np.arange(10), 3)
    file = tmp_path / "majority-0-0.npz"
    outcome.save(file)
    loaded = load_outcome(file)
    assert np.array_equal(loaded.probabilities, outcome.probabilities) and loaded.setting == ""
    file.write_bytes(file.read_bytes()[:-40])
    assert load_outcome(file) is None and load_outcome(tmp_path / "none.npz") is None


def test_calibration_finds_the_temperature_and_helps_a_rare_class():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(4000, 3)) * 2
    shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    labels = (shares.cumsum(1) > rng.random((4000, 1))).argmax(1)
    actual = calibrated(logits * 5, labels, np.array([1, 1, 1]))
    assert actual.scale == pytest.approx(0.2, rel=0.1) and np.allclose(actual.offset, actual.offset[0])
    # scores that follow a prior of 98 to 2, while what tells the classes apart is weak
    labels = (rng.random(4000) < 0.02).astype(int)
    evidence = rng.normal(size=4000) + 1.5 * labels
    logits = np.stack([np.zeros(4000), 1.5 * evidence - 1.1 + np.log(0.02 / 0.98)], 1)
    actual = calibrated(logits, labels, np.bincount(labels))
    assert actual.strength > 0
    assert actual.probabilities(logits).argmax(1)[labels == 1].mean() > (logits.argmax(1)[labels == 1]).mean()


def test_a_solved_regression_is_adjusted_as_usual_unless_validation_rows_speak_against_it():
    labels, counts = np.repeat([0, 1], [450, 50]), np.array([450, 50])
    prior = np.log(counts / 500)
    right = 8.0 * np.eye(2)[labels] + prior  # of every strength the same answers
    assert [calibrated(right, labels, counts, is_solved).strength for is_solved in (False, True)] == [0.0, 0.75]
    evidence = np.random.default_rng(0).normal(size=(500, 1)) + labels[:, None]
    balanced = np.hstack([-evidence, evidence]) * 0.5 + 0.3 * prior  # has been adjusted: more of it misleads
    assert calibrated(balanced, labels, counts, True).strength < 0.75


def test_cross_entropy_at_the_temperature_that_suits_the_rows():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 7, 500)
    logits = rng.normal(size=(500, 7)) + np.eye(7)[labels]
    losses = [
        -log_softmax(scale * logits, axis=1)[np.arange(500), labels].mean() for scale in np.geomspace(0.1, 10, 999)
    ]
    assert cross_entropy(logits, labels) == pytest.approx(min(losses), abs=1e-6)
    assert best_scale(logits, labels) == pytest.approx(np.geomspace(0.1, 10, 999)[np.argmin(losses)], rel=0.01)
    assert best_scale(1e3 * logits + 1e5, labels) * 1e3 > 15  # as flat as is looked for, and finite


def test_nearly_as_many_classes_as_rows_are_solved_without_a_warning(recwarn):
    rows, labels = np.random.default_rng(0).normal(size=(60, 4)), np.arange(60) % 40
    assert len(list(cheap.logistic(rows, labels, 40))) == len(cheap.PENALTIES) and not recwarn.list
    logistic_regression(csr_matrix(rows), labels, 40, 1.0)
    assert not recwarn.list
