"""method=pairs_words: three classifiers in one sum, each written from its formula or scikit-learn's."""

from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import nn

from lightning_modules.heads.tfidf import fitted_rows, token_counts, weighted
from lightning_modules.methods.few_labels.class_names import ClassNames
from lightning_modules.methods.few_labels.pairs_words import PairsWordsModule
from losses import CosinePairLoss
from tests.command_lines import rows

VOCABULARY = 12


class Rows(nn.Module):
    """In place of an encoder: the embedding of a text is known, that of a name hangs on its tokens."""

    hidden_size = 4

    def token_embeddings(self):
        return torch.zeros(VOCABULARY, self.hidden_size)

    def forward(self, input_ids, attention_mask):
        pairs = zip(input_ids, attention_mask, strict=True)
        return torch.stack([(ids * mask).sum() * torch.arange(1.0, 5) % 7 for ids, mask in pairs])


class Lengths:
    """In place of a tokenizer: a token for each word, its length."""

    def __call__(self, texts, **options):
        ids = [torch.tensor([min(len(word), VOCABULARY - 1) for word in text.split()]) for text in texts]
        pad = nn.utils.rnn.pad_sequence
        masks = [torch.ones_like(row) for row in ids]
        return {"input_ids": pad(ids, batch_first=True), "attention_mask": pad(masks, batch_first=True)}


def solved(labels, num_classes, tokens=None, **options):
    """Embeddings and tokens, which hang on the number of the class among those there are, and their logits."""
    generator = torch.Generator().manual_seed(0)
    embeddings = 3 * torch.randn(len(labels), 4, generator=generator)
    embeddings += 2 * labels.unique(return_inverse=True)[1][:, None]
    tokens = tokens or [np.unique(torch.randint(VOCABULARY, (5,), generator=generator).numpy()) for _ in labels]
    counts = torch.ones(num_classes)
    module = PairsWordsModule(Rows(), CosinePairLoss(), counts, None, None, "pairs_words", **options).eval()
    module.solve({"train": ((tokens, embeddings), labels)})
    return embeddings.double(), tokens, module.logits(embeddings).detach().double() + words_of(module, tokens)


def words_of(module, tokens):
    """What the words of texts add to their logits."""
    tfidf = weighted(token_counts(tokens, VOCABULARY), module.inverse_frequency.numpy())
    return torch.from_numpy(tfidf.toarray()) @ module.words.weight.detach().double().T


def test_the_head_is_a_regression_a_discriminant_and_words_at_one_spread():
    labels = torch.arange(40) % 3
    embeddings, tokens, actual = solved(labels, 3, word_share=0.5)
    means = torch.stack([embeddings[labels == c].mean(0) for c in range(3)])
    within = (embeddings - means[labels]).T @ (embeddings - means[labels]) / 40
    inverse = torch.linalg.inv(within / 2 + within.trace() / 4 * torch.eye(4) / 2)
    discriminant = np.zeros((40, 3))
    for n, row in enumerate(embeddings):
        for c, mean in enumerate(means):
            discriminant[n, c] = row @ inverse @ mean - mean @ inverse @ mean / 2 + (labels == c).double().mean().log()
    tfidf, options = fitted_rows(tokens, VOCABULARY)[0], {"max_iter": 10_000, "tol": 1e-9}
    regression = LogisticRegression(C=1.0, **options).fit(embeddings, labels).decision_function(embeddings)
    words = LogisticRegression(C=10.0, **options).fit(tfidf, labels).decision_function(tfidf)
    first, second, third = (s - s.mean(1, keepdims=True) for s in (regression, discriminant, words))
    expected = first / first.std() + second / second.std() + 0.5 * third / third.std()
    actual = (actual - actual.mean(1, keepdim=True)).numpy()
    np.testing.assert_allclose(actual, expected * first.std() / 2.5, atol=5e-3)


def test_a_class_without_train_rows_changes_nothing_and_is_never_predicted():
    labels = torch.arange(40) % 3
    alone, among = solved(labels, 3)[2], solved(labels + (labels > 0), 4)[2]
    assert 1 not in among.argmax(1)
    torch.testing.assert_close(among[:, [0, 2, 3]], alone)
    # no further below than the lowest score of another class: whoever calibrates by these rows is not led astray
    torch.testing.assert_close(among[:, 1].min(), alone.min())


def test_without_words_or_a_second_class_the_head_is_what_the_rest_says():
    labels = torch.arange(40) % 2
    same = [np.array([1, 2])] * 40  # of an unknown script: every row has all tokens
    actual, expected = solved(labels, 2, tokens=same)[2], solved(labels, 2, tokens=same, word_share=0.0)[2]
    torch.testing.assert_close(actual, expected)
    assert torch.equal(solved(labels * 0 + 1, 2)[2], torch.tensor([-10.0, 0.0]).double().expand(40, 2))


def test_names_are_rows_of_the_head_four_a_class():
    names = ClassNames(["tin", "plum, sour cherry", "frost"], Lengths())
    sentences, rows_of_names, owner = names.rows(Rows())
    assert owner.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert [row.tolist() for row in sentences[4:8]] == [[4], [4, 4, 2, 5, 4, 7], [3, 5, 2, 5], [9, 4, 6]]
    embeddings, tokens, actual = solved(torch.arange(40) % 3, 3, class_names=names)
    module = PairsWordsModule(Rows(), CosinePairLoss(), torch.ones(3), None, None, "pairs_words").eval()
    rows, labels = torch.cat([embeddings.float(), rows_of_names]), torch.cat([torch.arange(40) % 3, owner])
    module.solve({"train": (([*tokens, *sentences], rows), labels)})
    torch.testing.assert_close(module.logits(embeddings.float()).double() + words_of(module, tokens), actual)
    alone = solved(torch.arange(40) % 3, 3, class_names=names, use_names=False)[2]
    assert not torch.allclose(alone, actual)


def places(rows, step=0, micro_batch=0, accumulate=1, rank=0, world=1, counts=(10, 6, 8)):
    """Of the sentences that a process reads beside its part of a batch of so many rows."""
    names = ClassNames(["tin", "plum, sour cherry", "frost"], Lengths())
    module = PairsWordsModule(
        Rows(), CosinePairLoss(), torch.tensor(counts), None, None, "pairs_words", class_names=names
    )
    module.micro_batch = micro_batch
    trainer = SimpleNamespace(world_size=world, accumulate_grad_batches=accumulate)
    with mock.patch.multiple(PairsWordsModule, trainer=trainer, global_step=step, global_rank=rank):
        return module._sentences_beside(rows).tolist()


def test_batches_go_round_the_sentences_whatever_the_processes_and_the_accumulation():
    epoch = [place for step in range(3) for place in places(8, step)]  # 24 rows, 12 sentences
    assert sorted(epoch) == [0, 1, 2, 3, 4, 6, 9, 11, 12, 13, 14, 15]
    assert [place for micro in range(3) for place in places(8, 0, micro, 3)] == epoch
    assert sorted(places(8, 1, rank=0, world=2) + places(8, 1, rank=1, world=2)) == sorted(places(8, 1))
    assert len(places(8, counts=(1, 1, 1))) == 8  # no more than rows


@pytest.mark.slow
def test_a_run_learns_and_predicts(fit, use, toy_csv, tmp_path, small):
    line = ["method=pairs_words", "encoder.train=top_layers", "encoder.num_top_layers=1"]
    run = fit(*line, "dataset.labels_per_class=8", "trainer.max_epochs=6")
    assert run.metrics["test/accuracy"] > 0.5 and run.metrics["epochs"] == 6 and run.metrics["reads"] == "N"
    stored = [row["prediction"] for row in rows(run.folder / "predictions.csv") if row["split"] == "test"]
    assert use("predict", run, f"input={toy_csv['test']}", f"output={tmp_path}/p.csv").code == 0
    assert [row["prediction"] for row in rows(tmp_path / "p.csv")] == stored
    assert use("export", run, "format=transformers", f"output={tmp_path}/out").code == 0  # compared as it is written


@pytest.fixture
def small(small):
    """Without the rate of a head that is trained."""
    return [word for word in small if not word.startswith("method.head_lr")]
