"""Embeddings and words in one sum, against two models of scikit-learn, through a whole run."""

import json

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize
from transformers import AutoTokenizer

from tests.command_lines import rows


@pytest.mark.slow
def test_predictions_are_those_of_two_models_added(solve, use, toy_csv, tmp_path, tiny_encoder_dir):
    result = solve("method=linear_words")
    assert result.code == 0, result.err
    train, test = rows(toy_csv["train"]), rows(toy_csv["test"])
    kept = json.loads((result.folder / "kept_indices.json").read_text())["train"]
    labels = [train[row]["label"] for row in kept]

    tokenizer = AutoTokenizer.from_pretrained(tiny_encoder_dir)
    pieces = {"tokenizer": lambda text: tokenizer.tokenize(text)[:30], "token_pattern": None, "lowercase": False}
    words = TfidfVectorizer(sublinear_tf=True, **pieces)
    of_train = words.fit_transform([train[row]["text"] for row in kept])
    model = LogisticRegression(C=result.metrics["solver/C"], max_iter=100_000, tol=1e-8).fit(of_train, labels)
    logits = model.decision_function(words.transform([row["text"] for row in test]))

    tables = {len(array): normalize(array) for array in map(np.load, (tmp_path / "cache" / "features").glob("*.npy"))}
    strength = 1 / (len(kept) * result.metrics["solver/penalty"])
    model = LogisticRegression(C=strength, max_iter=100_000, tol=1e-8).fit(tables[len(train)][kept], labels)
    expected = softmax(logits + model.decision_function(tables[len(test)]), axis=1)

    assert use("predict", result, f"input={toy_csv['test']}", f"output={tmp_path}/p.csv").code == 0
    stored = [row for row in rows(result.folder / "predictions.csv") if row["split"] == "test"]
    for answers in (stored, rows(tmp_path / "p.csv")):
        assert [row["prediction"] for row in answers] == model.classes_[expected.argmax(1)].tolist()
        difference = np.abs(np.array([float(row["probability"]) for row in answers]) - expected.max(1))
        assert np.median(difference) < 1e-3 and difference.max() < 0.05  # it stops early where a penalty is weak


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (["encoder.train=full"], "encoder.train: found full; allowed with method=linear_words: frozen"),
        (["dataset.labels=2", "protocol=few_shot"], "protocol=few_shot: found 2 labelled rows"),
    ],
)
def test_bad_input(solve, line, message):
    assert solve("method=linear_words", *line).error.startswith(message)
