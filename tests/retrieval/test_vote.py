"""The neighbours' vote against its golden cases, and the search over k, tau and lam."""

import json
from pathlib import Path

import numpy as np
import pytest

from retrieval import Index, best_vote, interpolate, neighbour_weights, shared_label_share, vote

CASES = json.loads((Path(__file__).parents[1] / "golden" / "knn_mltc.json").read_text())["cases"]
EQ1 = [case for case in CASES if case["id"].startswith("knn_eq1")]


@pytest.mark.parametrize("case", EQ1, ids=lambda case: case["id"])
def test_golden(case):
    inputs, expected = case["inputs"], case["expected"]
    store, labels = np.array(inputs["datastore"]), np.array(inputs["labels"])
    exact = np.linalg.norm(store - inputs["query"], axis=1)
    order = np.argsort(exact)[: inputs["k"]]
    distances, neighbours = exact[order][None], labels[order][None]
    assert neighbour_weights(distances, inputs["tau"])[0] == pytest.approx(expected["alpha"], abs=1e-10)
    of_neighbours = vote(distances, neighbours, inputs["tau"])
    assert of_neighbours[0] == pytest.approx(expected["y_knn"], abs=1e-10)
    final = interpolate(of_neighbours, np.array([inputs["y_model"]]), inputs["lam"])[0]
    assert final == pytest.approx(expected["y_final"], abs=1e-10)
    assert (final > 0.5).astype(int).tolist() == expected["y_hat_at_0_5"]
    query = np.array([inputs["query"]], np.float32)
    actual, positions = Index(store.astype(np.float32)).search(query, inputs["k"])
    number = len(order)
    assert positions[0, :number].tolist() == expected["neighbours"]
    assert actual[0, :number] == pytest.approx(expected["distances"], abs=1e-5)  # not squared
    assert np.isinf(actual[0, number:]).all() and (positions[0, number:] == -1).all()
    assert neighbour_weights(actual, inputs["tau"])[0, :number] == pytest.approx(expected["alpha"], abs=1e-5)


def test_shared_label_share_is_golden():
    case = next(case for case in CASES if case["id"].startswith("shared_label"))
    labels = np.array(EQ1[0]["inputs"]["labels"])[case["inputs"]["neighbours"]]
    assert shared_label_share(labels[None], np.array([case["inputs"]["test_labels"]])) == pytest.approx(0.6, abs=1e-12)


def micro_f1(scores, references):
    predicted = scores > 0.5
    return 2 * (predicted & (references > 0)).sum() / (predicted.sum() + references.sum())


def accuracy(scores, references):
    return (scores.argmax(axis=1) == references.argmax(axis=1)).mean()


@pytest.mark.parametrize("figure", [micro_f1, accuracy])
def test_the_best_vote_is_the_best(figure):
    rng = np.random.default_rng(0)
    distances, labels = np.sort(rng.random((40, 8)), axis=1), (rng.random((40, 8, 5)) < 0.4).astype(float)
    model_probabilities, references = rng.random((40, 5)), (rng.random((40, 5)) < 0.4).astype(int)
    ks, taus, lams = (1, 3, 8), (0.1, 1.0), (0.0, 0.5, 1.0)

    def score(k, tau, lam):
        return figure(interpolate(vote(distances[:, :k], labels[:, :k], tau), model_probabilities, lam), references)

    every = [score(k, tau, lam) for k in ks for tau in taus for lam in lams]
    options = (lambda scores: figure(scores, references), ks, taus, lams)
    actual = best_vote(distances, labels, model_probabilities, *options)
    assert actual["score"] == pytest.approx(max(every)) and max(every) > min(every)
    assert score(actual["k"], actual["tau"], actual["lam"]) == pytest.approx(max(every))


def test_of_equally_good_votes_the_first_is_taken():
    actual = best_vote(np.ones((2, 2)), np.ones((2, 2, 3)), np.ones((2, 3)), lambda _: 0.0, (2, 1), (3.0, 1.0), (1, 0))
    assert actual == {"k": 2, "tau": 3.0, "lam": 1, "score": 0.0}


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="tau must be > 0, got 0"):
        neighbour_weights(np.ones((1, 1)), 0)
    with pytest.raises(ValueError, match="a row without a neighbour"):
        neighbour_weights(np.full((1, 2), np.inf), 1.0)
    with pytest.raises(ValueError, match="lam must be in"):
        interpolate(np.ones((1, 1)), np.ones((1, 1)), 1.5)
