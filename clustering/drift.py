"""Whether new texts fall into the clusters of a run as its own texts did."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

DRAWS = 9_999  # tables with the same margins


@dataclass(frozen=True)
class Drift:
    """Texts of the run and new ones in each cluster, (K,) both, and three comparisons with their p-values.

    Attributes:
        before, after: texts of each cluster.
        share_p: of the chi-squared statistic of both rows of counts, by tables drawn with their margins.
        distance, distance_p: largest difference between the distribution functions of the distances to the own
            centre (Kolmogorov and Smirnov), and its p-value.
        far_before, far_after: share of texts farther out than the fence of their cluster.
        far_p: of these two shares (Fisher's exact test).
    """

    before: NDArray[np.int64]
    after: NDArray[np.int64]
    share_p: float
    distance: float
    distance_p: float
    far_before: float
    far_after: float
    far_p: float


def measure_drift(
    before: tuple[NDArray[np.int64], NDArray[np.float32]],
    after: tuple[NDArray[np.int64], NDArray[np.float32]],
    fences: NDArray[np.float32],
    rng: np.random.Generator,
) -> Drift:
    """How new texts differ from those of a run.

    The run's own texts made the centres, and so lie a little nearer to them than new texts of the same source: with
    many new texts the distances alone may differ significantly without any drift.

    Args:
        before, after: clusters (N,) and distances to their centres (N,), of the run's texts and of the new ones; an
            infinite distance, of a text without a known word, counts as far out.
        fences: (K,), of `clustering.landscape.fences`.
        rng: of the tables that are drawn.
    """
    from scipy.stats import fisher_exact, ks_2samp

    counts = np.stack([np.bincount(clusters, minlength=len(fences)) for clusters, _ in (before, after)])
    far = [distances > fences[clusters] for clusters, distances in (before, after)]
    table = [[int(part.sum()), int((~part).sum())] for part in far]
    finite = [distances[np.isfinite(distances)] for _, distances in (before, after)]
    statistic, p = ks_2samp(*finite) if all(map(len, finite)) else (float("nan"), float("nan"))
    return Drift(
        counts[0],
        counts[1],
        share_p(counts, rng),
        float(statistic),
        float(p),
        float(far[0].mean()),
        float(far[1].mean()),
        float(fisher_exact(table).pvalue),
    )


def share_p(counts: NDArray[np.int64], rng: np.random.Generator, draws: int = DRAWS) -> float:
    """p-value of the chi-squared statistic of counts (2, K): the share of tables with these margins, drawn at random,
    whose statistic is as large; exact but for the draws, however small the counts are (Patefield 1981)."""
    totals, new = counts.sum(axis=0), int(counts[1].sum())
    expected = totals * (new / totals.sum())
    scale = np.maximum(expected, np.finfo(float).tiny)  # 0 texts expected where there are none at all
    observed = ((counts[1] - expected) ** 2 / scale).sum()  # grows with chi-squared: the other row mirrors it
    drawn = rng.multivariate_hypergeometric(totals, new, size=draws, method="marginals")
    larger = (((drawn - expected) ** 2 / scale).sum(axis=1) >= observed * (1 - 1e-12)).sum()
    return float((1 + larger) / (1 + draws))
