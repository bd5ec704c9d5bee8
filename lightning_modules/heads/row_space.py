"""Sparse rows in the space that they span: fewer weights to look among, and the same optimum."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

MOST_ROWS = 2000  # of more, the decomposition takes longer than it saves
LEAST_SHARE = 1e-12  # of the largest eigenvalue: what is smaller is rounding


class RowSpace:
    """N sparse rows over V columns as R coordinates, R at most N.

    Weights of a linear model with a squared penalty have their optimum in the space of the rows (representer theorem,
    Schölkopf et al., COLT 2001), and coordinates there change no product and no length. A solver that stops at a
    largest gradient may stop elsewhere, near the same optimum. Of more rows than `MOST_ROWS`, or than columns that
    occur, those columns are the coordinates.

    Args:
        inputs: (N, V), where most columns are empty.

    Attributes:
        rows: (N, R).
    """

    rows: csr_matrix | NDArray[np.float64]

    def __init__(self, inputs: csr_matrix) -> None:
        self.inputs, self._present, self._directions = inputs, np.unique(inputs.indices), None
        self.rows = inputs[:, self._present]
        if inputs.shape[0] < min(MOST_ROWS, len(self._present)):
            values, vectors = np.linalg.eigh((inputs @ inputs.T).toarray())
            kept = values > LEAST_SHARE * values.max()
            lengths = np.sqrt(values[kept])
            self.rows, self._directions = vectors[:, kept] * lengths, vectors[:, kept] / lengths

    def weights(self, own: NDArray[np.float64]) -> NDArray[np.float64]:
        """Weights (C, V) that give the inputs the scores which weights (C, R) give `rows`, the shortest of them."""
        if self._directions is not None:
            return (self.inputs.T @ (self._directions @ own.T)).T
        weight = np.zeros((len(own), self.inputs.shape[1]))
        weight[:, self._present] = own
        return weight
