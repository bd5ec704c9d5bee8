"""Two heads and words as a module: what trains, and the weighted sum of three that predicts afterwards."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.nn import functional

from lightning_modules.heads.stacking import stacking_weights
from lightning_modules.heads.tfidf import fitted_rows, logistic_regression, token_counts, weighted
from lightning_modules.methods.supervised.two_heads_words import TwoHeadsWordsModule
from losses import BilateralLoss
from storage.run_store import RunFolder
from tests.lightning_modules.methods.supervised.test_classification import COUNTS, Features

VOCABULARY = 20


class FeaturesOfTokens(Features):
    def token_embeddings(self):
        return torch.zeros(VOCABULARY, 4)


def build(step=0, counts=COUNTS, **options):
    torch.manual_seed(0)
    module = TwoHeadsWordsModule(FeaturesOfTokens(), BilateralLoss(), counts, None, None, "two", dropout=0.0, **options)
    module.trainer = SimpleNamespace(global_step=step, estimated_stepping_batches=10)
    return module


def rows_of(number, seed):
    """Token ids and embeddings that both tell the class a little."""
    generator = np.random.default_rng(seed)
    labels = torch.from_numpy(generator.permutation(np.arange(number) % 3))
    hints = [int(y) if generator.random() < 0.7 else 3 for y in labels]
    tokens = [np.append(generator.integers(3, VOCABULARY, 6), hint) for hint in hints]
    embeddings = torch.from_numpy(generator.normal(size=(number, 8))).float()
    embeddings[:, :3] += functional.one_hot(labels, 3)
    return (tokens, embeddings), labels


def batch_of(tokens, embeddings):
    ids = torch.from_numpy(np.stack(tokens)).long()
    return {"features": embeddings, "input_ids": ids, "attention_mask": torch.ones_like(ids)}


def test_each_head_learns_its_half_of_a_batch():
    module, (_, embeddings), labels = build(step=5), *rows_of(12, seed=1)
    share = 0.75  # 1 - (5 / 10)^2
    mixed = 2 * (share * module.classifier(embeddings[:6]) + (1 - share) * module.other_classifier(embeddings[6:]))
    own, other = (functional.cross_entropy(mixed, half) for half in labels.split(6))
    losses = module.training_losses({"features": embeddings, "labels": labels, "num_views": 1})
    torch.testing.assert_close(losses["loss"], share * own + (1 - share) * other)


@pytest.mark.parametrize("read_words", [True, False])
def test_validation_rows_weigh_heads_and_words(read_words):
    module, splits = build(read_words=read_words).eval(), {"train": rows_of(90, seed=2), "val": rows_of(60, seed=3)}
    heads = [module.classifier, module.other_classifier]
    (tokens, embeddings), labels = splits["val"]
    with torch.no_grad():
        parts = [head(embeddings).double() for head in heads]
    figures = module.solve(splits)
    if read_words:
        (train_tokens, _), train_labels = splits["train"]
        rows, frequency = fitted_rows(train_tokens, VOCABULARY)
        val_rows = weighted(token_counts(tokens, VOCABULARY), frequency)
        scores = {}
        for C in (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0):
            weight, bias = logistic_regression(rows, train_labels.numpy(), 3, C)
            scores[C] = torch.from_numpy(val_rows @ weight.T + bias)
        losses = {C: float(functional.cross_entropy(values, labels)) for C, values in scores.items()}
        assert figures["solver/C"] == min(losses, key=losses.get) and len(set(losses.values())) == 7
        parts.append(scores[figures["solver/C"]])
    centred = [part - part.mean(1, keepdim=True) for part in parts]
    held_out = torch.stack([part / part.std() for part in centred])
    weights = stacking_weights(held_out, labels)
    assert figures["solver/weights"] == pytest.approx(weights.tolist(), rel=1e-3)
    expected = torch.einsum("m,mnc->nc", weights, held_out).softmax(1)
    with torch.no_grad():
        answers = module(batch_of(tokens, embeddings))["logits"].softmax(1)
    torch.testing.assert_close(answers.double(), expected, atol=1e-4, rtol=0)
    assert bool(module.words.weight.any()) == read_words


def test_a_class_without_a_train_row_leaves_the_words_their_say():
    """Its bias of -10,000 in their regression would be nearly all of the spread that they are divided by."""
    module = build(counts=torch.cat([COUNTS, torch.tensor([0])])).eval()
    splits = {"train": rows_of(90, seed=2), "val": rows_of(60, seed=3)}
    module.solve(splits)
    (tokens, embeddings), labels = splits["val"]
    with torch.no_grad():
        answers = module(batch_of(tokens, embeddings))["logits"].argmax(1)
    assert (answers == labels).float().mean() > 0.7 and int(answers.max()) < 3


@pytest.mark.slow
def test_stopped_after_the_heads_are_joined_it_does_not_join_them_again(fit, monkeypatch, tmp_path):
    line = ["method=two_heads_words", "trainer.max_epochs=1"]
    whole = fit(*line, f"paths.runs={tmp_path}/whole")
    finish = RunFolder.finish

    def stopped(run, figures):
        monkeypatch.setattr(RunFolder, "finish", finish)
        raise KeyboardInterrupt

    monkeypatch.setattr(RunFolder, "finish", stopped)
    assert fit(*line).code == 130
    resumed = fit(*line)
    assert (resumed.folder / "predictions.csv").read_text() == (whole.folder / "predictions.csv").read_text()
    assert resumed.metrics["solver/weights"] == whole.metrics["solver/weights"]
