"""Clusters that embeddings and words agree on: two views of a text, each of which labels it for the other."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from clustering.agreement import Grouping, agreements, grouped
from clustering.kmeans import KMeans, unit_rows

Start = Grouping | Literal["kmeans_of_both", "ward_of_both", "ward_average_of_both"]  # embeddings alone, or both views
Fit = Literal["by_start", "surest", "all"]
GROUPINGS: tuple[Grouping, ...] = get_args(Grouping)
MARGIN = 0.01  # of agreement, that words must bring to a start: from one draw of halves to another it varies by 0.005
COMPONENTS = 100  # of latent semantic analysis, as scikit-learn recommends
SETTLED = 1e-3  # share of texts that change their cluster in a step at which co-EM ends
FOLDS = 4  # what words say of a text is asked of those who have not seen it: they learn any text by heart
SHRINKAGE = 0.1  # of the covariance towards a multiple of the identity
PENALTY = 3e-5  # of the regression on words


@dataclass(frozen=True)
class TwoViews:
    """Scores of K clusters, the sum of what both views say: linear in the embedding, and linear in the words.

    Attributes:
        weight, bias: (K, D) and (K,), of embeddings of unit length.
        word_weight, word_bias: (K, V) and (K,), of TF-IDF rows.
    """

    weight: NDArray[np.float32]
    bias: NDArray[np.float32]
    word_weight: NDArray[np.float32]
    word_bias: NDArray[np.float32]

    def clusters(self, vectors: NDArray[np.float32], words: csr_matrix) -> NDArray[np.int64]:
        """The best cluster (N,) of embeddings (N, D) and words (N, V)."""
        of_words = words @ self.word_weight.T + self.word_bias
        return (vectors @ self.weight.T + self.bias + of_words).argmax(1).astype(np.int64)

    def arrays(self) -> dict[str, Any]:
        return dict(vars(self))


@dataclass(frozen=True)
class Agreed:
    """Clusters (N,) of the texts, what gives new texts theirs, and what the choice of the start left."""

    assignments: NDArray[np.int64]
    model: TwoViews
    figures: dict[str, float]


def agreed_clusters(
    vectors: NDArray[np.float32],
    words: csr_matrix,
    num_clusters: int,
    rng: np.random.Generator,
    start: Start | Literal["agreement"] = "agreement",
    steps: int = 10,
    sample_rows: int | None = 25_000,
    fit: Fit = "by_start",
) -> Agreed:
    """Co-EM with hard assignments, from a grouping of the embeddings or of both views.

    Each step fits a linear discriminant to the embeddings and a regression to the words, and gives every text the
    cluster for which the sum of both is largest, each brought to mean 0 over the clusters and spread 1 over all; what
    words say of a text comes from the folds without it. Two views: Blum and Mitchell, COLT 1998; co-EM: Nigam and
    Ghani, CIKM 2000; for clustering: Bickel and Scheffer, ICDM 2004.

    Where the first grouping is one by k-means or Ward's linkage, which want clusters of one size, only the N / K surest
    texts of a cluster are fitted to (`surest`), as co-training takes sure texts alone: those that no view can tell
    gather in one cluster, which would become theirs.

    Args:
        vectors: (N, D) of unit length, N at least 2 K.
        words: TF-IDF rows (N, V) of the same texts.
        num_clusters: K.
        rng: of the start and the folds.
        start: a grouping of the embeddings, or of both views side by side (`side_by_side`); `agreement` between halves
            of the texts chooses (`clustering.agreement`).
        steps: of co-EM at most, >= 1; it ends where fewer than one text in a thousand changes its cluster.
        sample_rows: at most so many texts, drawn by `rng`, are looked at; the others are given their cluster as new
            ones are. None: all.
        fit: to the `surest` texts of each cluster, to `all`, or as the first grouping asks (above).

    A cluster can lose all its texts.
    """
    number = len(vectors)
    if sample_rows is not None and number > sample_rows:
        rows = np.sort(rng.choice(number, sample_rows, replace=False))
        agreed = agreed_clusters(vectors[rows], words[rows], num_clusters, rng, start, steps, fit=fit)
        return replace(agreed, assignments=agreed.model.clusters(vectors, words))
    first, by = _first_grouping(vectors, words, num_clusters, rng, start)
    fits_all = fit == "all" or (fit == "by_start" and by == "ward_average")
    most = len(vectors) if fits_all else -(-len(vectors) // num_clusters)
    model = _co_em(vectors, words, first.assignments, num_clusters, int(rng.integers(2**31)), steps, most)
    return Agreed(model.clusters(vectors, words), model, first.figures)


def agreed_regions(
    vectors: NDArray[np.float32], words: csr_matrix, regions: NDArray[np.int64], seed: int, steps: int = 3
) -> Agreed:
    """The same steps from regions of texts, each of which becomes a cluster; all texts of a cluster are fitted to.

    Args:
        vectors, words: as above.
        regions: (N,) from 0 on, two at least, none without texts; -1: a text in none, which the first step gives its
            cluster.
        seed: of the folds.
        steps: at most, >= 1.

    A cluster can lose all its texts.
    """
    model = _co_em(vectors, words, regions, int(regions.max()) + 1, seed, steps, len(vectors))
    return Agreed(model.clusters(vectors, words), model, {})


def _co_em(
    vectors: NDArray[np.float32],
    words: csr_matrix,
    clusters: NDArray,
    num_clusters: int,
    seed: int,
    steps: int,
    most: int,
) -> TwoViews:
    """Both views after the steps. The first is fitted to the texts that have a cluster (N,), -1 being none, the others
    to the surest of each cluster, at most so many."""
    fitted = clusters >= 0
    for _ in range(steps):
        weight, bias = _discriminant(vectors[fitted], clusters[fitted], num_clusters)
        of_words = held_out_words(words, clusters, fitted, num_clusters, seed)
        scores = _comparable(vectors @ weight.T + bias) + _comparable(of_words)
        before, clusters = clusters, scores.argmax(1)
        fitted = surest(scores, clusters, most)
        if (before != clusters).mean() < SETTLED:
            break
    return _fitted(vectors, words, clusters, fitted, num_clusters, seed)


def surest(scores: NDArray[np.float64], clusters: NDArray[np.int64], most: int) -> NDArray[np.bool_]:
    """Whether a text (N,) is one of the `most` of its cluster whose best score (N, K) is farthest above the second."""
    second, best = np.partition(scores, -2, axis=1)[:, -2:].T
    order = np.lexsort((second - best, clusters))  # cluster by cluster, the surest text first
    rank = np.arange(len(order)) - np.searchsorted(clusters[order], clusters[order])
    is_surest = np.empty(len(order), dtype=bool)
    is_surest[order] = rank < most
    return is_surest


def side_by_side(vectors: NDArray[np.float32], words: csr_matrix, seed: int) -> NDArray[np.float32]:
    """Rows (N, D + 100) of unit length: the embedding of a text, and what latent semantic analysis makes of its words.

    That is a truncated singular value decomposition (Deerwester et al., JASIS 1990) of TF-IDF rows, scaled to the
    embedding's length: both count alike. Fewer than 100 words have as many components.
    """
    from sklearn.decomposition import TruncatedSVD

    analysis = TruncatedSVD(min(COMPONENTS, words.shape[1]), random_state=seed)
    latent = unit_rows(analysis.fit_transform(words).astype(np.float32))
    return unit_rows(np.hstack([vectors, latent]))


def _first_grouping(
    vectors: NDArray[np.float32],
    words: csr_matrix,
    num_clusters: int,
    rng: np.random.Generator,
    start: Start | Literal["agreement"],
) -> tuple[KMeans, Grouping]:
    """The grouping that co-EM starts from, and how it was done."""
    seed = int(rng.integers(2**31))
    spaces = {"": vectors}
    if start not in GROUPINGS:
        spaces["_of_both"] = side_by_side(vectors, words, seed)
    ways = {f"{by}{space}": (rows, by) for space, rows in spaces.items() for by in GROUPINGS}
    reached: dict[str, float] = {}
    if start == "agreement":
        for space, rows in spaces.items():
            of_space = agreements(rows, num_clusters, np.random.default_rng(seed))  # the same halves of both
            reached |= {f"{by}{space}": value for by, value in of_space.items()}
    chosen = most_agreed_start(reached) if reached else start
    rows, by = ways[chosen]
    first = grouped(rows, num_clusters, rng, by)
    return replace(first, figures={f"agreement/{name}": value for name, value in reached.items()}), by


def most_agreed_start(reached: Mapping[str, float], margin: float = MARGIN) -> str:
    """The start of largest agreement; one of both views must have `margin` more."""
    return max(reached, key=lambda name: reached[name] - margin * (name not in GROUPINGS))


def _discriminant(vectors: NDArray, clusters: NDArray, num_clusters: int) -> tuple[NDArray, NDArray]:
    """Weights (K, D) and biases (K,) of Gaussians with one covariance, all clusters equally probable."""
    rows = vectors.astype(np.float64)
    counts = np.bincount(clusters, minlength=num_clusters) + 1e-6
    means = np.zeros((num_clusters, rows.shape[1]))
    np.add.at(means, clusters, rows)
    means /= counts[:, None]
    covariance = (rows.T @ rows - (means.T * counts) @ means) / counts.sum()
    spread = np.trace(covariance) / len(covariance)
    covariance = (1 - SHRINKAGE) * covariance + SHRINKAGE * spread * np.eye(len(covariance))
    weight = np.linalg.solve(covariance, means.T).T
    bias = -(means * weight).sum(1) / 2
    bias[counts < 1] = bias.min()  # one without texts has its mean at 0, where no text of unit length lies
    return weight, bias


def word_regression(
    words: csr_matrix, clusters: NDArray, num_clusters: int, seed: int, weights: NDArray | None = None
) -> tuple[NDArray, NDArray]:
    """Weights (K, V) and biases (K,) of one regression for each cluster; one without texts says what the least says,
    and where there are no texts at all, none says anything.

    `weights` (N,) are what the texts count; None: every cluster counts alike.
    """
    from sklearn.linear_model import SGDClassifier

    present = np.unique(clusters)
    weight, bias = np.zeros((num_clusters, words.shape[1]), np.float32), np.full(num_clusters, -np.inf)
    if len(present) == 0:
        return weight, np.zeros(num_clusters)
    if len(present) == 1:
        bias[present] = 0.0
    else:
        alike = "balanced" if weights is None else None
        fitted = SGDClassifier(loss="log_loss", alpha=PENALTY, class_weight=alike, random_state=seed)
        fitted.fit(words, clusters, sample_weight=weights)
        two = len(present) == 2  # scikit-learn keeps one row for two classes
        weight[present] = np.vstack([-fitted.coef_, fitted.coef_]) if two else fitted.coef_
        bias[present] = np.concatenate([-fitted.intercept_, fitted.intercept_]) if two else fitted.intercept_
    bias[np.isinf(bias)] = bias[present].min()
    return weight, bias


def held_out_words(
    words: csr_matrix,
    clusters: NDArray,
    fitted: NDArray[np.bool_],
    num_clusters: int,
    seed: int,
    weights: NDArray | None = None,
) -> NDArray[np.float64]:
    """Log-odds (N, K) of each text by a regression on the `fitted` texts (N,) of other folds, which has not seen it.

    Nor has it seen a copy: texts of the same words are in the fold of the first of them.
    """
    folds = (np.random.default_rng(seed).permutation(len(clusters)) % FOLDS)[first_copies(_row_bytes(words))]
    scores = np.empty((len(clusters), num_clusters))
    for fold in range(FOLDS):
        rows = fitted & (folds != fold)
        counted = None if weights is None else weights[rows]
        weight, bias = word_regression(words[rows], clusters[rows], num_clusters, seed, counted)
        scores[folds == fold] = words[folds == fold] @ weight.T + bias
    return scores


def first_copies(rows: Iterable[Hashable]) -> NDArray[np.int64]:
    """The place (N,) of the first row that equals each."""
    first: dict[Hashable, int] = {}
    return np.array([first.setdefault(row, place) for place, row in enumerate(rows)], dtype=np.int64)


def _row_bytes(words: csr_matrix) -> Iterator[bytes]:
    """Columns and values of each row, as bytes."""
    for start, end in pairwise(words.indptr):
        yield words.indices[start:end].tobytes() + words.data[start:end].tobytes()


def _comparable(scores: NDArray) -> NDArray:
    """Scores (N, K) with mean 0 over the clusters and spread 1 over all."""
    return (scores - scores.mean(1, keepdims=True)) / spread(scores)


def spread(scores: NDArray) -> float:
    """Spread of scores (N, K) about each text's mean; where all are alike the least number above 0."""
    return max(float((scores - scores.mean(1, keepdims=True)).std()), np.finfo(float).tiny)


def _fitted(
    vectors: NDArray, words: csr_matrix, clusters: NDArray, fitted: NDArray[np.bool_], num_clusters: int, seed: int
) -> TwoViews:
    """Both views fitted to the `fitted` texts (N,); each brought to its spread over all."""
    weight, bias = _discriminant(vectors[fitted], clusters[fitted], num_clusters)
    word_weight, word_bias = word_regression(words[fitted], clusters[fitted], num_clusters, seed)
    of_vectors, of_words = spread(vectors @ weight.T + bias), spread(words @ word_weight.T + word_bias)
    parts = (weight / of_vectors, bias / of_vectors, word_weight / of_words, word_bias / of_words)
    return TwoViews(*(part.astype(np.float32) for part in parts))
