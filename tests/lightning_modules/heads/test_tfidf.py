"""Scores of words: as scikit-learn's rows give them, whatever the padding."""

from functools import partial

import numpy as np
import pytest
import torch

from lightning_modules.heads.tfidf import chosen_regression, fitted_rows, logistic_regression, word_scores


def test_scores_are_those_of_whole_rows_and_padding_changes_no_bit():
    rng = np.random.default_rng(0)
    tokens = [rng.integers(1, 40, size=length).astype(np.int32) for length in (12, 3, 7, 1)] + [np.full(5, 9, np.int32)]
    rows, frequency = fitted_rows(tokens, 50)
    weight = torch.from_numpy(rng.normal(size=(3, 50))).float()

    def scores(texts, length):
        ids = torch.zeros(len(texts), length, dtype=torch.long)
        mask = torch.zeros(len(texts), length, dtype=torch.long)
        for number, text in enumerate(texts):
            ids[number, : len(text)], mask[number, : len(text)] = torch.from_numpy(text).long(), 1
        return word_scores(ids, mask, torch.from_numpy(frequency).float(), weight)

    together = scores(tokens, 12)
    assert np.allclose(together.numpy(), rows @ weight.numpy().T, atol=1e-5)
    alone = [scores([text], length) for text, length in zip(tokens, (29, 3, 8, 2, 64), strict=True)]
    assert torch.equal(together, torch.cat(alone))


def test_losses_of_which_none_is_a_number_are_refused():
    rows, _ = fitted_rows([np.array([1, 2]), np.array([2, 3])], 5)
    with pytest.raises(ValueError, match="val split: found no finite loss on its 2 rows with C = 1, 3, "):
        fit = partial(logistic_regression, rows, np.array([0, 1]), 2)
        chosen_regression(fit, lambda *_: torch.tensor(np.nan), (rows, torch.tensor([0, 1])))
