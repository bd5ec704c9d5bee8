"""Labels that the texts speak against, and texts that stand twice or nearly so."""

from __future__ import annotations

import logging

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from storage.tables import folded

NEARLY = 0.95  # cosine similarity of embeddings
NEIGHBOURS = 6  # a text's own, and five more


def suspect_labels(labels: NDArray[np.int64], probabilities: NDArray[np.float64]) -> pd.DataFrame:
    """Rows that confident learning takes for mislabelled, the least likely label first.

    Of the rows of a label, those whose probability of another class is the furthest above that of the label: for each
    other class so many as the confident joint has, which counts rows whose probability of that class reaches its mean
    over the rows that have it as label. Rows whose label is their most likely class do not count (Northcutt et al.
    2021, pruning by noise rate, as cleanlab computes it).

    Args:
        labels: (N,) class indices.
        probabilities: (N, C) of models that had not seen the row.

    Returns:
        position (in the arrays), suggested (class index), label_quality (probability of the label, 0 to 1).
    """
    if len(np.unique(labels)) < 2:
        return pd.DataFrame({"position": [], "suggested": [], "label_quality": []})
    from cleanlab.filter import find_label_issues

    logging.getLogger("cleanlab").setLevel(logging.ERROR)
    clipped = np.maximum(probabilities, 1e-9)
    clipped /= clipped.sum(axis=1, keepdims=True)
    positions = find_label_issues(labels, clipped, return_indices_ranked_by="self_confidence", n_jobs=1)
    suggested, quality = probabilities[positions].argmax(axis=1), probabilities[positions, labels[positions]]
    return pd.DataFrame({"position": positions, "suggested": suggested, "label_quality": quality})


def suspect_label_sets(labels: NDArray[np.bool_], probabilities: NDArray[np.float64]) -> pd.DataFrame:
    """The same of several labels (N, C), each by itself (Thyagarajan et al. 2022), as cleanlab computes it.

    `label_quality` is a mean over the row's labels, absent ones included, that weighs the worst most (an exponential
    moving average), 0 to 1; nothing is suggested. Labels that all rows have, or none, say nothing.
    """
    from cleanlab.multilabel_classification import get_label_quality_scores
    from cleanlab.multilabel_classification.filter import find_label_issues

    varies = labels.any(axis=0) & ~labels.all(axis=0)
    if varies.sum() < 2:  # cleanlab takes no fewer
        return pd.DataFrame({"position": [], "label_quality": []})
    labels, probabilities = labels[:, varies], probabilities[:, varies]
    logging.getLogger("cleanlab").setLevel(logging.ERROR)
    lists = [np.flatnonzero(row).tolist() for row in labels]
    positions = find_label_issues(lists, probabilities, return_indices_ranked_by="self_confidence", n_jobs=1)
    quality = get_label_quality_scores(lists, probabilities)
    return pd.DataFrame({"position": positions, "label_quality": quality[positions]})


def duplicates(texts: list[str], labels: NDArray[np.int64], embeddings: NDArray[np.float32] | None) -> pd.DataFrame:
    """Pairs of rows with one text, case and spaces aside, or, where there are embeddings, nearly one, the most alike
    first.

    Args:
        texts: N of them.
        labels: (N,) class indices.
        embeddings: (N, D) of unit length, zeros of a text that is nearly equal to none.

    Returns:
        first, second (positions), similarity (1 where texts are equal), same_label.
    """
    pairs = _equal(texts)
    if embeddings is not None:
        pairs = {**_near(embeddings), **pairs}
    ordered = sorted(pairs.items(), key=lambda item: (-item[1], item[0]))
    table = pd.DataFrame([(*pair, value) for pair, value in ordered], columns=["first", "second", "similarity"])
    same = labels[table["first"].to_numpy(int)] == labels[table["second"].to_numpy(int)]
    return table.assign(same_label=same)


def _equal(texts: list[str]) -> dict[tuple[int, int], float]:
    """Each later row with the first of its text."""
    first: dict[str, int] = {}
    pairs = ((first.setdefault(folded(text), place), place) for place, text in enumerate(texts))
    return {pair: 1.0 for pair in pairs if pair[0] != pair[1]}


def _near(embeddings: NDArray[np.float32]) -> dict[tuple[int, int], float]:
    from sklearn.neighbors import NearestNeighbors

    places = np.flatnonzero(embeddings.any(axis=1))
    if not len(places):
        return {}
    embeddings = embeddings[places]
    search = NearestNeighbors(n_neighbors=min(NEIGHBOURS, len(embeddings)), algorithm="brute").fit(embeddings)
    distances, neighbours = search.kneighbors(embeddings)
    similarity = 1 - distances**2 / 2
    rows, columns = np.nonzero(similarity >= NEARLY)
    others = places[neighbours[rows, columns]]
    return {
        (int(min(pair)), int(max(pair))): float(min(value, 1.0))
        for *pair, value in zip(places[rows], others, similarity[rows, columns], strict=True)
        if pair[0] != pair[1]
    }
