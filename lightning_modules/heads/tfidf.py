"""TF-IDF of token counts, as scikit-learn has it, and the logistic regression on it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from torch import Tensor
from torch.nn import functional

if TYPE_CHECKING:
    from sklearn.linear_model import LogisticRegression  # prediction does without its second

INVERSE_PENALTIES = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)  # C of scikit-learn
ABSENT = -1e4  # logit of a class without a train row


def token_counts(rows: Sequence[NDArray[np.integer]], vocabulary_size: int) -> csr_matrix:
    """How often each token occurs (N, V) in rows of token ids."""
    ids = np.concatenate([*rows, np.empty(0, np.int32)])
    ends = np.cumsum([0, *map(len, rows)])
    counts = csr_matrix((np.ones(len(ids)), ids, ends), (len(rows), vocabulary_size))
    counts.sum_duplicates()
    return counts


def inverse_frequencies(counts: csr_matrix) -> NDArray[np.float64]:
    """ln((1 + N) / (1 + rows with the token)) + 1 (V,); 0 for tokens of no row, as if they were not there, and for
    those of every row: some begin and end each text."""
    rows, with_token = counts.shape[0], np.bincount(counts.indices, minlength=counts.shape[1])
    varies = (with_token > 0) & (with_token < rows)
    return np.where(varies, np.log((1 + rows) / (1 + with_token)) + 1, 0.0)


def weighted(counts: csr_matrix, inverse_frequency: NDArray[np.floating]) -> csr_matrix:
    """(1 + ln count) times the inverse frequency (V,), rows (N, V) of unit length."""
    from sklearn.preprocessing import normalize

    weights = counts.copy()
    weights.data = (1 + np.log(weights.data)) * inverse_frequency[weights.indices]
    return normalize(weights)


def fitted_rows(
    tokens: Sequence[NDArray[np.integer]], vocabulary_size: int
) -> tuple[csr_matrix, NDArray[np.float64]]:
    """`weighted` rows (N, V) of token ids, and the inverse frequencies (V,) that they have themselves."""
    counts = token_counts(tokens, vocabulary_size)
    inverse_frequency = inverse_frequencies(counts)
    return weighted(counts, inverse_frequency), inverse_frequency


def word_scores(input_ids: Tensor, attention_mask: Tensor, inverse_frequency: Tensor, weight: Tensor) -> Tensor:
    """`weighted` rows times weight (C, V), of token ids (B, L) and their mask (B, L) of 0/1: (B, C).

    Every place of a token adds its share, so that the rows over the vocabulary are never there as a whole. The sums go
    from place to place: padding, which adds 0, changes no bit.
    """
    counts = torch.zeros(len(input_ids), len(inverse_frequency), device=input_ids.device)
    counts = counts.scatter_add_(1, input_ids, attention_mask.float()).gather(1, input_ids).clamp_min(1)
    weights = torch.where(attention_mask > 0, counts.log().add(1) * inverse_frequency[input_ids], 0.0)
    unit = torch.ones_like(inverse_frequency)[:, None]
    squares = functional.embedding_bag(input_ids, unit, per_sample_weights=weights.square() / counts, mode="sum")
    table = weight.T.contiguous()
    scores = functional.embedding_bag(input_ids, table, per_sample_weights=weights / counts, mode="sum")
    return scores / squares.sqrt().clamp_min(torch.finfo(squares.dtype).tiny)


def logistic_regression(
    inputs: csr_matrix, labels: NDArray[np.integer], num_classes: int, inverse_penalty: float
) -> tuple[NDArray, NDArray]:
    """Weights (C, V) and biases (C,) of softmax; a token of no row has weight 0, a class without a row `ABSENT`."""
    from sklearn.linear_model import LogisticRegression

    present = np.unique(inputs.indices)  # most of a vocabulary is not
    model = fitted(LogisticRegression(C=inverse_penalty, max_iter=1000), inputs[:, present], labels)
    weight = np.zeros((num_classes, inputs.shape[1]))
    weight[:, present], bias = softmax_rows(model, num_classes, ABSENT)
    return weight, bias


class WordsSolution(NamedTuple):
    """A regression on words: weights (C, V), biases (C,), the C of scikit-learn that was chosen, the loss of each C."""

    weight: Tensor
    bias: Tensor
    inverse_penalty: float
    validation_losses: dict[float, float]


def chosen_regression(
    fit: Callable[[float], tuple[NDArray, NDArray]],
    loss: Callable[[Tensor, Tensor], Tensor],
    validation: tuple[csr_matrix, Tensor],
) -> WordsSolution:
    """The regression whose logits have the lowest loss on rows (N, V) and labels of `validation`, the strongest penalty
    of equal ones.

    Args:
        fit: of the train rows: the C of scikit-learn to weights (C, V) and biases (C,).
        loss: of logits (N, C) and labels.
        validation: the rows and their labels.

    Raises:
        ValueError: none of the losses is finite.
    """
    best, losses = None, {}
    for inverse_penalty in INVERSE_PENALTIES:
        weight, bias = fit(inverse_penalty)
        losses[inverse_penalty] = float(loss(torch.from_numpy(validation[0] @ weight.T + bias), validation[1]))
        if losses[inverse_penalty] < (losses[best[2]] if best else np.inf):
            best = torch.from_numpy(weight), torch.from_numpy(bias), inverse_penalty
    if best is None:
        penalties, rows = ", ".join(f"{inverse_penalty:g}" for inverse_penalty in losses), len(validation[1])
        problem = f"found no finite loss on its {rows} rows with C = {penalties}"
        raise ValueError(f"val split: {problem}, allowed: one at least")
    return WordsSolution(*best, losses)


def fitted(model: LogisticRegression, inputs: Any, labels: NDArray[np.integer]) -> LogisticRegression:
    """The model, fitted; that classes of a row or two look like numbers is no news."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The number of unique classes is greater than 50%")
        return model.fit(inputs, labels)


def softmax_rows(model: LogisticRegression, num_classes: int, absent: float) -> tuple[NDArray, NDArray]:
    """Weights (C, D) and biases (C,) of a model of scikit-learn, which has one row for two classes and none for absent
    ones, whose bias is then `absent`."""
    rows, biases = model.coef_, model.intercept_
    if len(model.classes_) == 2:
        rows, biases = np.concatenate([-rows, rows]) / 2, np.concatenate([-biases, biases]) / 2
    weight, bias = np.zeros((num_classes, rows.shape[1])), np.full(num_classes, absent)
    weight[model.classes_], bias[model.classes_] = rows, biases
    return weight, bias
