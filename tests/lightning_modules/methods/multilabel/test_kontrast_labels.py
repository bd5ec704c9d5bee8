"""method=kontrast_labels: what the texts without labels are told, where the head begins, and a whole run beside bce."""

import json
from functools import partial

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score
from torch import nn

from lightning_modules.base import derived_seed
from lightning_modules.encoders.transformer import TextEncoder
from lightning_modules.heads.label_stack import label_stack, random_folds
from lightning_modules.heads.tfidf import fitted_rows, token_counts, weighted
from lightning_modules.methods.multilabel.kontrast_labels import KontrastLabelsModule
from losses import SoftLabelLoss
from tests.command_lines import command


@pytest.fixture
def run(store, topic_files):
    """`run("method=kontrast_labels")`: few texts have labels."""
    line = [*topic_files(train=24, test=6), "dataset.labels=40", "optimizer.lr=1e-3", *store]
    return lambda *words: command([*line, *words])


class Encoder(TextEncoder):
    """As far as `begin` asks: hidden size and vocabulary."""

    def __init__(self):
        nn.Module.__init__(self)
        self.hidden_size, self.frozen = 6, False

    def token_embeddings(self):
        return torch.zeros(30, 6)


@pytest.fixture
def splits():
    """Embeddings, token ids and 4 labels of 60 rows; the last label has no row, the last 20 rows no labels."""
    rng = np.random.default_rng(0)
    labels = (rng.random((60, 4)) < 0.4).astype(np.uint8)
    labels[:, 3] = 0
    embeddings = torch.from_numpy(np.pad(labels, ((0, 0), (0, 2))) + rng.normal(scale=0.5, size=(60, 6))).float()
    tokens = [rng.integers(30, size=8) for _ in range(60)]
    of_none = torch.full((20, 4), -1)
    return {
        "train": ((tokens[:40], embeddings[:40]), torch.from_numpy(labels[:40])),
        "unlabelled": ((tokens[40:], embeddings[40:]), of_none),
    }


@pytest.fixture
def module():
    optimizer = partial(torch.optim.AdamW, lr=1e-3)
    return KontrastLabelsModule(Encoder(), SoftLabelLoss(), torch.ones(4), optimizer, None, name="kontrast_labels")


def test_texts_without_labels_are_told_what_the_sum_says_of_them(module, splits):
    module.begin(splits)
    ((tokens, embeddings), labels), ((other_tokens, others), _) = splits.values()
    rows, other_rows = (nn.functional.normalize(part, dim=1).numpy() for part in (embeddings, others))
    words, frequency = fitted_rows(tokens, 30)
    folds = random_folds(tokens, np.random.default_rng(derived_seed(0, "folds")))
    stack = label_stack(rows, words, labels.numpy(), None, folds)
    logits = stack.on_embeddings(other_rows) + stack.on_words(weighted(token_counts(other_tokens, 30), frequency))
    assert torch.equal(module.targets[:40], labels.float()) and module.is_true.tolist() == [True] * 40 + [False] * 20
    assert np.allclose(module.targets[40:], 1 / (1 + np.exp(-logits)), atol=1e-6)
    held_out = 1 / (1 + np.exp(-stack.held_out))
    best = max(f1_score(labels.ravel(), held_out.ravel() >= score) for score in held_out.ravel())
    assert f1_score(labels.ravel(), held_out.ravel() > module.threshold) == best
    assert module.metrics["val"].threshold == module.threshold


@pytest.mark.slow
def test_a_run_reads_texts_without_labels_and_says_so(run, use, tmp_path):
    result, beside = run("method=kontrast_labels"), run("method=kontrast_labels", "dataset.most_unlabelled=1")
    assert result.metrics["reads"] == "NU" and result.metrics["solver/weight_words"] > 0
    assert result.metrics["test/micro_f1"] > max(0.75, beside.metrics["test/micro_f1"])
    assert use("evaluate", result).code == 0
    evaluated = json.loads((result.folder / "evaluation.json").read_text())
    assert evaluated["threshold"] == result.metrics["threshold"]
    assert evaluated["test/micro_f1"] == result.metrics["test/micro_f1"]
    assert use("predict", result, f"input={tmp_path}/test.csv", f"output={tmp_path}/p.csv").code == 0
    alone = run("method=kontrast_labels", "dataset.labels=null", "trainer.least_steps=0", "trainer.max_epochs=1")
    assert alone.metrics["reads"] == "N" and 0 < alone.metrics["threshold"] < 1
    number = run("method=kontrast_labels", "trainer.least_steps=0", "trainer.max_epochs=1", "method.threshold=0.5")
    assert number.metrics["threshold"] == 0.5 != result.metrics["threshold"]
