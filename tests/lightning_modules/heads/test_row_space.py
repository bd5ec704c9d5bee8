"""A regression in the space of the rows is the regression on all columns."""

import numpy as np
import pytest
from scipy.sparse import random as random_rows
from sklearn.linear_model import LogisticRegression

from lightning_modules.heads.row_space import RowSpace


@pytest.mark.parametrize(("rows", "columns"), [(40, 300), (60, 25)])  # fewer rows than columns, and more
def test_the_optimum_is_that_over_all_columns(rows: int, columns: int) -> None:
    rng = np.random.default_rng(0)
    inputs = random_rows(rows, columns, 0.2, "csr", random_state=0)
    inputs[7] = inputs[3]  # equal rows span less
    inputs = inputs.tocsr()
    labels = rng.integers(0, 3, rows)
    space, model = RowSpace(inputs), LogisticRegression(C=30.0, tol=1e-9, max_iter=5000)
    expected = model.fit(inputs.toarray(), labels).coef_
    weights = space.weights(model.fit(space.rows, labels).coef_)
    assert space.rows.shape[1] <= min(rows, columns)
    assert np.allclose(weights, expected, atol=1e-5 * abs(expected).max())
