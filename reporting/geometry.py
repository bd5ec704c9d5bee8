"""How embeddings lie: alignment, uniformity, purity of neighbourhoods, silhouette. All on the unit sphere."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
BLOCK = 1024


def unit(embeddings: NDArray) -> Array:
    """Rows (N, D) scaled to length 1; a row of zeros stays."""
    rows = np.asarray(embeddings, dtype=np.float64)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths > 0, lengths, 1)


def alignment(embeddings: NDArray, labels: NDArray) -> float | None:
    """E ||z_i - z_j||^2 over pairs of one class (Wang & Isola 2020): in [0, 4], small where classes are tight.

    The mean of the classes' means, which the published code of SCL-HNM estimates from one random pairing. A class with
    one row has no pair; None where no class has one.
    """
    rows = unit(embeddings)
    means = []
    for label in np.unique(labels):
        class_rows = rows[labels == label]
        if len(class_rows) > 1:
            # sum over i != j of |z_i - z_j|^2 = 2 n sum |z_i|^2 - 2 |sum z_i|^2
            total = class_rows.sum(axis=0)
            squares = 2 * (len(class_rows) * (class_rows**2).sum() - total @ total)
            means.append(squares / (len(class_rows) * (len(class_rows) - 1)))
    return float(np.mean(means)) if means else None


def uniformity(embeddings: NDArray) -> float | None:
    """log E_{i<j} exp(-2 ||z_i - z_j||^2) (Wang & Isola 2020, t = 2): at most 0, low where rows fill the sphere."""
    rows = unit(embeddings)
    if len(rows) < 2:
        return None
    norms = (rows**2).sum(axis=1)
    total = 0.0
    for start in range(0, len(rows), BLOCK):
        block = slice(start, start + BLOCK)
        squares = norms[block, None] + norms - 2 * rows[block] @ rows.T
        total += np.exp(-2 * np.maximum(squares, 0)).sum()
    return float(np.log(max(total - len(rows), np.finfo(float).tiny) / (len(rows) * (len(rows) - 1))))


def neighbourhood_purity(embeddings: NDArray, labels: NDArray, neighbours: int = 10) -> float | None:
    """Mean share of a row's `neighbours` nearest other rows (by cosine; all, where there are fewer) of its class."""
    rows = unit(embeddings)
    count = min(neighbours, len(rows) - 1)
    if count < 1:
        return None
    hits = 0
    for start in range(0, len(rows), BLOCK):
        block = np.arange(start, min(start + BLOCK, len(rows)))
        similarities = rows[block] @ rows.T
        similarities[np.arange(len(block)), block] = -np.inf
        nearest = np.argpartition(-similarities, count - 1, axis=1)[:, :count]
        hits += int((labels[nearest] == labels[block, None]).sum())
    return hits / (count * len(rows))


def silhouette(embeddings: NDArray, labels: NDArray) -> float | None:
    """Mean silhouette by cosine distance (Rousseeuw 1987), in [-1, 1]; None unless 1 < classes < rows."""
    from sklearn.metrics import silhouette_score

    if not 1 < len(np.unique(labels)) < len(labels):
        return None
    return float(silhouette_score(unit(embeddings), labels, metric="cosine"))


def geometry(
    embeddings: NDArray, labels: NDArray, neighbours: int = 10, max_rows: int = 5000, seed: int = 0
) -> dict[str, float]:
    """The four figures, without those that are undefined; of more than `max_rows` rows a random part by `seed`."""
    if len(labels) > max_rows:
        sampled = np.sort(np.random.default_rng(seed).choice(len(labels), max_rows, replace=False))
        embeddings, labels = embeddings[sampled], labels[sampled]
    figures = {
        "alignment": alignment(embeddings, labels),
        "uniformity": uniformity(embeddings),
        "neighbourhood_purity": neighbourhood_purity(embeddings, labels, neighbours),
        "silhouette": silhouette(embeddings, labels),
    }
    return {name: value for name, value in figures.items() if value is not None}
