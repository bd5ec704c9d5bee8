"""scikit-learn's logistic regression on TF-IDF of words, for texts of several labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from lightning_modules.methods.few_labels.tfidf_linear import TfidfLinearModule
from lightning_modules.methods.multilabel.base import MultiLabelModule, Threshold

CONSTANT = 1e4  # how far above or below 0 the logit lies of a label that all train rows have, or none


class TfidfLabelsModule(TfidfLinearModule, MultiLabelModule):
    """TF-IDF of the words of the train rows, then logistic regression of each label: `method=tfidf_labels`.

    One strength for all labels, the one with the lowest loss on the validation rows.

    Args:
        threshold: see `MultiLabelModule`.
        options: those of `TfidfLinearModule`.
    """

    def __init__(self, *args: Any, threshold: Threshold = 0.5, **options: Any) -> None:
        super().__init__(*args, **options | {"threshold": threshold})

    def _check(self, labels: Tensor) -> None:
        """Labels (N, C) that all rows share are allowed: they are constants."""

    def _fitted(self, inputs: csr_matrix, labels: np.ndarray, inverse_penalty: float) -> tuple[np.ndarray, np.ndarray]:
        shares = labels.mean(axis=0)
        weight = np.zeros((self.num_classes, inputs.shape[1]))
        bias = np.where(shares > 0.5, CONSTANT, -CONSTANT)
        for label in np.flatnonzero((shares > 0) & (shares < 1)):
            model = LogisticRegression(C=inverse_penalty, max_iter=1000).fit(inputs, labels[:, label])
            weight[label], bias[label] = model.coef_[0], model.intercept_[0]
        return weight, bias
