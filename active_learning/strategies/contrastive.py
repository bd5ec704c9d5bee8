"""CAL: texts that look alike to the encoder but not to the classifier."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from active_learning.selection import Selection, at_random, blocks, highest, query_strategy, squared_norms
from active_learning.strategies.uncertainty import NO_MODEL, shannon_entropy


@query_strategy
def cal(
    *,
    unlabelled: np.ndarray,
    labelled: np.ndarray,
    embeddings: np.ndarray,
    query_size: int,
    rng: np.random.Generator,
    probabilities: np.ndarray | None = None,
    neighbours: Annotated[int, ">= 1"] = 10,
    epsilon: Annotated[float, "> 0"] = 1e-12,
) -> Selection:
    """Contrastive active learning (Margatina et al. 2021, algorithm 1): highest mean KL(p_neighbour || p_text) over the
    nearest `neighbours` **labelled** texts (all, where fewer are labelled). Probabilities below `epsilon` count as it
    in the logarithm. Score: that mean in nats. Before there is a model or a label: at random."""
    if probabilities is None or not len(labelled):
        return at_random(unlabelled, query_size, rng, NO_MODEL)
    known, known_probabilities = embeddings[labelled], probabilities[labelled].astype(np.float64)
    half_norms, entropies = squared_norms(known) / 2, shannon_entropy(known_probabilities)
    count = min(neighbours, len(labelled))
    parts = []
    for part in blocks(unlabelled, max(1, 2**22 // len(labelled))):
        nearness = embeddings[part] @ known.T - half_norms
        nearest = np.argpartition(-nearness, count - 1, axis=1)[:, :count]
        logs = np.log(np.maximum(probabilities[part].astype(np.float64), epsilon))
        # mean_n KL(p_n || q) = -mean_n H(p_n) - (mean_n p_n) · log q
        cross = np.einsum("nc,nc->n", known_probabilities[nearest].mean(axis=1), logs)
        parts.append(-entropies[nearest].mean(axis=1) - cross)
    scores = np.concatenate(parts)
    best = highest(scores, query_size, rng)
    reasons = [f"divergence {score:.3g} nats from {count} labelled neighbours" for score in scores[best]]
    return Selection(unlabelled[best], scores[best], reasons)
