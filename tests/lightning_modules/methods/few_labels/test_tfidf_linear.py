"""TF-IDF and logistic regression against scikit-learn's own pipeline, through a whole run."""

import json

import pytest
import torch
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from lightning_modules.methods.few_labels.tfidf_linear import TfidfLinearModule
from tests.command_lines import command, rows


@pytest.fixture
def run(files, store):
    return lambda *words: command([*files, *store, "method=tfidf_linear", "logger=csv", *words])


@pytest.mark.slow
@pytest.mark.parametrize("sublinear", [True, False])
def test_predictions_are_those_of_the_pipeline(run, use, toy_csv, tmp_path, sublinear):
    result = run(f"method.sublinear={sublinear}".lower(), "dataset.labels=24")
    train, test = rows(toy_csv["train"]), rows(toy_csv["test"])
    kept = [train[row] for row in json.loads((result.folder / "kept_indices.json").read_text())["train"]]
    vectorizer = TfidfVectorizer(sublinear_tf=sublinear, token_pattern=r"\w+")
    model = LogisticRegression(C=result.metrics["solver/C"], max_iter=1000)
    pipeline = make_pipeline(vectorizer, model).fit([r["text"] for r in kept], [r["label"] for r in kept])
    texts = [row["text"] for row in test]
    stored = [row for row in rows(result.folder / "predictions.csv") if row["split"] == "test"]
    assert [row["prediction"] for row in stored] == pipeline.predict(texts).tolist()
    expected = pipeline.predict_proba(texts).max(1)
    assert [float(row["probability"]) for row in stored] == pytest.approx(expected.tolist(), abs=1e-5)
    assert use("predict", result, f"input={toy_csv['test']}", f"output={tmp_path}/p.csv").code == 0
    assert [row["prediction"] for row in rows(tmp_path / "p.csv")] == [row["prediction"] for row in stored]


def test_two_classes(run, toy_csv):
    for file in toy_csv.values():
        lines = file.read_text().splitlines()
        file.write_text("\n".join(line for line in lines if not line.endswith(("fruit", "weather"))) + "\n")
    assert run().metrics["test/accuracy"] > 0.9


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (["encoder=tiny"], "encoder: found a network, allowed with method=tfidf_linear: bag_of_words"),
        (["retrieval=knn"], "retrieval: has no effect with method=tfidf_linear"),
        (["dataset.labels=2", "protocol=few_shot"], "protocol=few_shot: found 2 labelled rows"),
    ],
)
def test_bad_input(run, line, message):
    assert run(*line).error.startswith(message)


def test_without_a_finite_loss_no_strength_is_chosen(run, monkeypatch):
    monkeypatch.setattr(TfidfLinearModule, "evaluation_loss", lambda *_: torch.tensor(torch.nan))
    assert run().error.startswith("val split: found no finite loss on its ")
