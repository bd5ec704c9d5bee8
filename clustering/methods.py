"""Clustering methods that train nothing: vectors in, clusters out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from clustering.agreement import Grouping, grouped, most_agreed
from clustering.density import density_clusters
from clustering.kmeans import KMeans, Vectors, kmeans, unit_rows
from clustering.two_views import Agreed, Start, agreed_clusters, agreed_regions

NumClusters = Annotated[int, ">= 2"] | Literal["auto"] | None
IDLE = (
    *("imbalance", "active", "retrieval", "head", "start_from"),
    *("loss", "augment", "optimizer", "scheduler", "callbacks"),
)


class UntrainedClustering:
    """What the methods here say of themselves to `engine.composition`."""

    serves = "clustering"
    kinds = ("text",)
    multilabel = False
    losses = ()
    protocols = ("transductive",)
    encoder_training = ("frozen",)


class KMeansClustering(UntrainedClustering):
    """k-means on vectors of texts: `method=sbert_kmeans`, `tfidf_kmeans`, `bow_kmeans`.

    Args:
        name: of the method.
        vectors: `encoder` (its embeddings as they come, without training), `tfidf` (rows of unit length) or `bow`
            (word counts).
        num_clusters: K; null takes the number of labels of the data set, auto estimates it.
        num_views: 1, for nothing is augmented.
        num_starts: starts of k-means; the one with the least inertia counts.
        max_iter: iterations of a start.
        unit_length: whether rows are scaled to length 1 first, so that distances order as cosines do.
        max_words: most frequent words that `tfidf` and `bow` count; null for all.
        sample_rows: texts that the centres are found on; null for all.
    """

    def __init__(
        self,
        name: str,
        vectors: Literal["encoder", "tfidf", "bow"],
        num_clusters: NumClusters = None,
        num_views: Literal[1] = 1,
        num_starts: Annotated[int, ">= 1"] = 10,
        max_iter: Annotated[int, ">= 1"] = 300,
        unit_length: bool = True,
        max_words: Annotated[Annotated[int, ">= 2"] | None, "with vectors=tfidf|bow"] = None,
        sample_rows: Annotated[int, ">= 2"] | None = None,
    ) -> None:
        self.name, self.vectors, self.num_clusters, self.num_views = name, vectors, num_clusters, num_views
        self.num_starts, self.max_iter, self.unit_length = num_starts, max_iter, unit_length
        self.max_words, self.sample_rows = max_words, sample_rows

    @staticmethod
    def unused_groups(options: Mapping[str, Any]) -> tuple[str, ...]:
        """Groups of a config that the method with these options does not read."""
        return IDLE if options["vectors"] == "encoder" else (*IDLE, "encoder", "sampler")

    def scaled(self, vectors: Vectors) -> Vectors:
        """The vectors that are clustered."""
        return unit_rows(vectors) if self.unit_length else vectors

    def __call__(self, vectors: Vectors, num_clusters: int, rng: np.random.Generator) -> KMeans:
        """Clusters of scaled vectors (N, D). Raises ValueError as `kmeans` does."""
        return kmeans(vectors, num_clusters, rng, self.num_starts, self.max_iter, self.sample_rows)


class OfEmbeddings(UntrainedClustering):
    """What methods share that cluster the encoder's embeddings as they come, scaled to length 1."""

    vectors: Literal["encoder"] = "encoder"
    unused_groups = IDLE

    def scaled(self, vectors: Vectors) -> Vectors:
        """The vectors that are clustered."""
        return unit_rows(vectors)


class AgreementClustering(OfEmbeddings):
    """The grouping of the encoder's embeddings that two halves of the texts agree on most: `method=sbert_agreement`.

    Args:
        name: of the method.
        num_clusters: K; null takes the number of labels of the data set, auto estimates it.
        by: `agreement` between halves of the texts chooses; or `kmeans`, `ward`, `ward_average`. See
            `clustering.agreement`.
        num_views: 1, for nothing is augmented.
    """

    def __init__(
        self,
        name: str,
        num_clusters: NumClusters = None,
        by: Grouping | Literal["agreement"] = "agreement",
        num_views: Literal[1] = 1,
    ) -> None:
        self.name, self.num_clusters, self.by, self.num_views = name, num_clusters, by, num_views

    def __call__(self, vectors: NDArray[np.float32], num_clusters: int, rng: np.random.Generator) -> KMeans:
        """Clusters of vectors (N, D) of unit length."""
        if self.by == "agreement":
            return most_agreed(vectors, num_clusters, rng)
        return grouped(vectors, num_clusters, rng, self.by)


class TwoViewClustering(OfEmbeddings):
    """Clusters that the encoder's embeddings and the words agree on: `method=sbert_words`.

    Args:
        name: of the method.
        num_clusters: K; null takes the number of labels of the data set, auto estimates it.
        start: `agreement` between halves of the texts chooses the first grouping; or `kmeans`, `ward`, `ward_average`
            of the embeddings, `kmeans_of_both`, `ward_of_both`, `ward_average_of_both` of embeddings and words.
        steps: of co-EM at most. Formulas and sources: `clustering.two_views`.
        sample_rows: texts that the clusters are found on, where there are more; null for all.
        num_views: 1, for nothing is augmented.
    """

    def __init__(
        self,
        name: str,
        num_clusters: NumClusters = None,
        start: Start | Literal["agreement"] = "agreement",
        steps: Annotated[int, ">= 1"] = 10,
        sample_rows: Annotated[int, ">= 4"] | None = 25_000,
        num_views: Literal[1] = 1,
    ) -> None:
        self.name, self.num_clusters, self.num_views = name, num_clusters, num_views
        self.start, self.steps, self.sample_rows = start, steps, sample_rows

    def __call__(
        self, vectors: NDArray[np.float32], words: csr_matrix, num_clusters: int, rng: np.random.Generator
    ) -> Agreed:
        """Clusters of vectors (N, D) of unit length and words (N, V).

        Raises:
            ValueError: fewer than 2 K texts, or fewer in the sample.
        """
        sample = min(len(vectors), self.sample_rows or len(vectors))
        if sample < 2 * num_clusters:
            raise ValueError(
                f"method.num_clusters: found {num_clusters} of {sample} texts, allowed: 2 to {sample // 2}"
                + (", or a larger method.sample_rows" if sample < len(vectors) else "")
            )
        return agreed_clusters(vectors, words, num_clusters, rng, self.start, self.steps, self.sample_rows)


class DensityClustering(OfEmbeddings):
    """HDBSCAN on the graph of nearest neighbours of the encoder's embeddings: `method=hdbscan`.

    Texts that lie in no dense region are outliers, a cluster of their own with the last number. How many clusters there
    are comes of the density: no number is asked for. Formulas and sources: `clustering.density`.

    Args:
        name: of the method.
        vectors: `encoder`: its embeddings as they come, scaled to length 1.
        num_views: 1, for nothing is augmented.
        num_neighbours: of each text in the graph.
        num_components: eigenvectors of the graph, in whose space the density is looked at.
        min_cluster_size: least texts of a cluster; `by_size`: a four-hundredth of all, 10 at least.
        min_samples: texts that make a region dense.
    """

    def __init__(
        self,
        name: str,
        vectors: Literal["encoder"] = "encoder",
        num_views: Literal[1] = 1,
        num_neighbours: Annotated[int, ">= 2"] = 15,
        num_components: Annotated[int, ">= 1"] = 20,
        min_cluster_size: Annotated[int, ">= 2"] | Literal["by_size"] = "by_size",
        min_samples: Annotated[int, ">= 1"] = 5,
    ) -> None:
        self.name, self.vectors, self.num_views = name, vectors, num_views
        self.num_neighbours, self.num_components = num_neighbours, num_components
        self.min_cluster_size, self.min_samples = min_cluster_size, min_samples

    def __call__(self, vectors: NDArray[np.float32]) -> NDArray[np.int64]:
        """Clusters (N,) of scaled vectors (N, D), the largest first; -1 is an outlier.

        Raises:
            ValueError: no region is dense enough, or there are fewer texts than one must have.
        """
        size = self.min_cluster_size
        least = max(10, len(vectors) // 400) if size == "by_size" else int(size)
        clusters = density_clusters(vectors, least, self.min_samples, self.num_neighbours, self.num_components)
        if (clusters < 0).all():
            raise ValueError(
                f"method.min_cluster_size: found {size}, and no region is dense enough for a cluster; "
                f"allowed: a smaller number, 2 at least"
            )
        return clusters


class DenseWordsClustering(DensityClustering):
    """Dense regions of the embeddings that the words then agree on, without outliers: `method=dense_words`.

    The regions of `hdbscan`, with its options, as many as there are; embeddings and words then label the texts for each
    other, those in no region too, so that a cluster can end smaller than its region, or empty. Formulas and sources:
    `clustering.density`, `clustering.two_views`.

    Args:
        name: of the method.
        steps: of co-EM at most.
        sample_rows: texts that the regions are looked for in, where there are more, and whose number
            `min_cluster_size` goes by; null for all.
    """

    def __init__(
        self,
        name: str,
        steps: Annotated[int, ">= 1"] = 3,
        sample_rows: Annotated[int, ">= 4"] | None = 25_000,
        **of_density: Any,
    ) -> None:
        super().__init__(name, **of_density)
        self.steps, self.sample_rows = steps, sample_rows

    def agreed(self, vectors: NDArray[np.float32], words: csr_matrix, rng: np.random.Generator) -> Agreed:
        """Clusters of vectors (N, D) of unit length and words (N, V).

        Raises:
            ValueError: as for the regions alone; of a sample, too.
        """
        if self.sample_rows is not None and len(vectors) > self.sample_rows:
            rows = np.sort(rng.choice(len(vectors), self.sample_rows, replace=False))
            try:
                agreed = self.agreed(vectors[rows], words[rows], rng)
            except ValueError as error:
                raise ValueError(f"{error}, or a larger method.sample_rows") from error
            return replace(agreed, assignments=agreed.model.clusters(vectors, words))
        regions = self(vectors)
        if not regions.max():
            size = self.min_cluster_size
            raise ValueError(
                f"method.min_cluster_size: found {size}, and one region alone is dense enough; "
                f"allowed: a smaller number, 2 at least"
            )
        return agreed_regions(vectors, words, regions, int(rng.integers(2**31)), self.steps)
