"""The strategy every other one has to beat."""

from __future__ import annotations

import numpy as np

from active_learning.selection import Selection, at_random, query_strategy


@query_strategy
def random(*, unlabelled: np.ndarray, query_size: int, rng: np.random.Generator) -> Selection:
    """Uniform draw without replacement. Score: the chance that a text had, query_size / U."""
    return at_random(unlabelled, query_size, rng, "drawn at random")
