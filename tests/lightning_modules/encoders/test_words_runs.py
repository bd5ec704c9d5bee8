"""Encoders of words from the command line: train, predict, vote; what they cannot serve is refused."""

import json

import pytest

from tests.command_lines import rows

pytestmark = pytest.mark.slow

SMALL = {
    "cnn": ["encoder=cnn", "encoder.dimension=16", "encoder.maps=8"],
    "ldgn": ["encoder=ldgn", "encoder.dimension=16", "encoder.hidden=8"],
}


@pytest.fixture
def small(small):
    """As for a transformer, without its folder of weights."""
    return [word for word in small if not word.startswith("encoder.")]


@pytest.mark.parametrize("encoder", SMALL)
def test_a_run_learns_predicts_and_votes(fit, use, toy_csv, tmp_path, encoder):
    words = [*SMALL[encoder], "method=ce", "encoder.dropout=0", "optimizer.lr=3e-2", "sampler.batch_size=8"]
    words += ["trainer.max_epochs=10", "callbacks.early_stopping=null"]
    run = fit(*words, "retrieval=knn", "retrieval.num_neighbours=[3]")
    assert run.metrics["encoder"] == encoder and run.metrics["test/accuracy"] > 0.5
    vocabulary = json.loads((run.folder / "words" / "tokenizer.json").read_text())["model"]["vocab"]
    kept = json.loads((run.folder / "kept_indices.json").read_text())["train"]
    texts = [row["text"] for row in rows(toy_csv["train"])]
    assert set(vocabulary) - {"[PAD]", "[UNK]"} == set(" ".join(texts[row] for row in kept).split())
    output = tmp_path / "pred.csv"
    assert use("predict", run, f"input={toy_csv['test']}", f"output={output}", "explain=true").code == 0
    stored = [row["prediction"] for row in rows(run.folder / "predictions_retrieval.csv") if row["split"] == "test"]
    assert [row["prediction"] for row in rows(output)] == stored
    again = use("evaluate", run)
    figures = json.loads((again.folder / "evaluation.json").read_text())
    assert figures["test/accuracy"] == run.metrics["test/accuracy"]
    assert f"task=export: found encoder={encoder}" in use("export", run).error


@pytest.mark.parametrize("method", ["sharprecl", "paco", "acl"])
@pytest.mark.parametrize("encoder", SMALL)
def test_contrastive_methods_take_them(fit, method, encoder):
    words = [*SMALL[encoder], f"method={method}", "augment=dropout"]
    assert "test/macro_f1" in fit(*words, "trainer.max_epochs=1").metrics


def test_what_they_cannot_serve(fit):
    cnn = SMALL["cnn"]
    assert "encoder=cnn starts from random word vectors" in fit(*cnn, "method=sharprecl", "augment=embedding").error
    assert "encoder: found one of words, allowed with method=dualcl: transformers" in fit(*cnn, "method=dualcl").error
    assert "active: encoder=cnn has a vocabulary of its own" in fit(*cnn, "method=ce", "active=random").error
    assert "encoder.train: found 'frozen'" in fit(*cnn, "method=ce", "encoder.train=frozen").error
    assert "encoder.lora: unknown key" in fit(*cnn, "method=ce", "encoder/lora=default").error
