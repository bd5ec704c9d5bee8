"""Nearest neighbours by Euclidean distance: all of them through torch, approximate and on a GPU through faiss."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Literal, get_args

import numpy as np
from numpy.typing import NDArray

Kind = Literal["flat", "ivf", "hnsw", "pq"]
ON_GPU = ("flat", "ivf")  # kinds that faiss searches on a GPU as it does on the CPU
BLOCK = 65_536  # vectors that enter an index, or are compared, at once
PIECE = 1024  # queries that are compared at once
ROUNDING = 1e-5  # of a distance, as a share of the length of the query
SAMPLE, NEIGHBOURS, RECALL = 256, 10, 0.95  # what the number of probes is chosen by


class Index:
    """An index over vectors; new ones are added without building it again.

    faiss works with as many threads as torch, and on a GPU where it was built for one and sees one.

    Args:
        vectors: (N, D) float32, N >= 1; may be memory-mapped.
        kind: `flat` compares with all; `ivf` with those of the nearest of about 4 sqrt(N) lists, kept in 16 bits a
            number; `hnsw` walks a graph; `pq` keeps 8 bits for every 4 dimensions or so, and measures distances to what
            they stand for.
        probes: lists that `ivf` and `pq` look into, >= 1; null takes the fewest, doubling from 4, by which `ivf` finds
            95 % of the 10 neighbours of 256 of its rows, and 32 for `pq`.
        seed: of what trains the lists.
        file: an index that `save` wrote, over the first rows of ``vectors``; the others are added to it.

    Raises:
        ValueError: an argument out of range, or a kind other than `flat` where faiss is not installed.
    """

    def __init__(
        self,
        vectors: NDArray[np.float32],
        kind: Kind = "flat",
        probes: int | None = None,
        seed: int = 0,
        file: Path | None = None,
    ) -> None:
        if kind not in get_args(Kind):
            raise ValueError(f"retrieval.index must be one of {', '.join(get_args(Kind))}, got {kind!r}")
        if vectors.ndim != 2 or not len(vectors):
            raise ValueError(f"vectors must be (N, D) with N >= 1, got {vectors.shape}")
        self.kind, self.dimension, self.size = kind, vectors.shape[1], 0
        self._faiss: Any = None
        self._blocks: list[tuple[Any, Any]] = []  # without faiss
        has_faiss = importlib.util.find_spec("faiss") is not None
        if has_faiss and (kind != "flat" or _gpus()):
            _share_threads()
            self._faiss = _on_gpu(_read(file) if file else _empty_index(vectors, kind, probes or 32, seed), kind)
            self.size = self._faiss.ntotal
        elif kind != "flat":
            raise ValueError(f"retrieval.index={kind}: faiss is not installed; allowed without it: flat")
        self.add(vectors[self.size :])
        if kind == "ivf" and probes is None and file is None:
            self._choose_probes(vectors, seed)

    @property
    def probes(self) -> int | None:
        """Lists that a search looks into; None where there are none."""
        return getattr(self._faiss, "nprobe", None)

    def _choose_probes(self, vectors: NDArray[np.float32], seed: int) -> None:
        rows = np.sort(np.random.default_rng(seed).permutation(len(vectors))[:SAMPLE])
        k = min(NEIGHBOURS, len(vectors) - 1)
        if not k:
            return
        queries = vectors[rows]
        true = _without(rows, *exact_search([vectors], queries, k + 1))[0]
        self._faiss.nprobe = probes = min(4, self._faiss.nlist)
        while probes < self._faiss.nlist:
            if recall_of([vectors], queries, self.search(queries, k, itself=rows)[1], true) >= RECALL:
                break
            self._faiss.nprobe = probes = min(2 * probes, self._faiss.nlist)

    def add(self, vectors: NDArray[np.float32]) -> None:
        """Add rows (M, D) behind those that are there. Raises ValueError for another D."""
        if vectors.ndim != 2 or vectors.shape[1] != self.dimension:
            raise ValueError(f"vectors must be (M, {self.dimension}), got {vectors.shape}")
        if self._faiss is None:
            self._blocks += _prepared([vectors])
        else:
            for block in _blocks([vectors]):
                self._faiss.add(np.ascontiguousarray(block, np.float32))
        self.size += len(vectors)

    def search(
        self, queries: NDArray[np.float32], k: int, itself: NDArray[np.integer] | None = None
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Distances, ascending, and positions of the nearest rows, (M, k) each; inf and -1 where there are fewer.

        A query whose lists hold no row, as those of many equal ones may, is asked again with twice the probes.

        Args:
            queries: (M, D).
            k: how many, >= 1.
            itself: (M,) position of each query among the rows, to be left out of its neighbours.
        """
        if k < 1:
            raise ValueError(f"k must be >= 1, got {k}")
        queries, probes = np.ascontiguousarray(queries, np.float32), self.probes
        distances, positions = self._nearest(queries, k, itself)
        while probes is not None and probes < self._faiss.nlist:
            if not len(empty := np.flatnonzero((positions < 0).all(axis=1))):
                break
            probes = min(2 * probes, self._faiss.nlist)
            own = None if itself is None else itself[empty]
            distances[empty], positions[empty] = self._nearest(queries[empty], k, own, probes)
        return distances, positions

    def _nearest(
        self, queries: NDArray[np.float32], k: int, itself: NDArray[np.integer] | None, probes: int | None = None
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """What `search` says, by the index's own number of probes or by another one."""
        count = k if itself is None else k + 1
        if self._faiss is None:
            squared, positions = _exact(lambda: self._blocks, queries, count)
        elif probes is None:
            squared, positions = self._faiss.search(queries, count)
        else:
            import faiss

            parameters = faiss.SearchParametersIVF()
            parameters.nprobe = probes
            squared, positions = self._faiss.search(queries, count, params=parameters)
        distances = np.sqrt(np.maximum(squared, 0))  # both measure squares
        distances[positions < 0] = np.inf
        return (distances, positions) if itself is None else _without(itself, distances, positions)

    def save(self, file: BinaryIO) -> None:
        """Write what was built. Raises ValueError for `flat`, which builds nothing."""
        if self.kind == "flat":
            raise ValueError("index: flat builds nothing to write; allowed: ivf, hnsw, pq")
        import faiss

        on_cpu = faiss.index_gpu_to_cpu(self._faiss) if _gpus() and self.kind in ON_GPU else self._faiss
        faiss.write_index(on_cpu, faiss.PyCallbackIOWriter(file.write))  # type: ignore[attr-defined]  # not in its types


def exact_search(
    parts: Sequence[NDArray[np.float32]], queries: NDArray[np.float32], k: int
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Squared distances, ascending, and positions of the nearest rows, (M, k) each; inf and -1 where there are fewer.

    Vectors are read block by block, so that memory-mapped ones need not fit into memory.
    """
    return _exact(lambda: _prepared(parts), queries, k)


def _exact(blocks: Callable[[], Iterable[tuple[Any, Any]]], queries: NDArray, k: int) -> tuple[NDArray, NDArray]:
    pieces = [_exact_piece(blocks(), queries[start : start + PIECE], k) for start in range(0, len(queries), PIECE)]
    squared, positions = zip(*pieces, strict=True)
    return np.concatenate(squared), np.concatenate(positions)


def _exact_piece(blocks: Iterable[tuple[Any, Any]], queries: NDArray, k: int) -> tuple[NDArray, NDArray]:
    import torch

    targets = torch.from_numpy(np.ascontiguousarray(queries, np.float32))
    best = torch.full((len(targets), k), torch.inf)
    places, first = torch.full((len(targets), k), -1), 0
    for rows, lengths in blocks:
        rough = lengths - 2 * targets @ rows.T  # a dot product rounds: more than k, to be measured exactly
        nearest = rough.topk(min(2 * k + 8, len(rows)), largest=False).indices
        squared = (targets[:, None] - rows[nearest]).square().sum(2)
        best, columns = torch.cat([best, squared], 1).topk(k, largest=False)
        places = torch.cat([places, first + nearest], 1).gather(1, columns)
        first += len(rows)
    return best.numpy(), places.numpy()


def _prepared(parts: Sequence[NDArray[np.float32]]) -> Iterator[tuple[Any, Any]]:
    """Blocks of the vectors as tensors, and the squared lengths of their rows."""
    import torch

    for block in _blocks(parts):
        rows = torch.from_numpy(np.array(block, np.float32))
        yield rows, rows.square().sum(1)


def recall(index: Index, vectors: Sequence[NDArray[np.float32]], queries: NDArray[np.float32], k: int = 10) -> float:
    """Share of the k neighbours by the index that are as near as the k true ones, mean over the queries (M, D).

    Args:
        vectors: those in the index, in parts (N_s, D); where there are fewer than k, all are true neighbours.
    """
    k = min(k, index.size)
    return recall_of(vectors, queries, index.search(queries, k)[1], exact_search(vectors, queries, k)[0])


def recall_of(
    vectors: Sequence[NDArray[np.float32]],
    queries: NDArray[np.float32],
    positions: NDArray[np.int64],
    true: NDArray[np.float32],
) -> float:
    """Share of the rows at `positions` (M, k), -1 being none, that are as near to the queries (M, D) as the farthest of
    the true neighbours is, whose squared distances (M, k) are given: of equal rows any are right."""
    squared, first = np.full(positions.shape, np.inf), 0
    for part in vectors:
        query, place = np.nonzero((positions >= first) & (positions < first + len(part)))
        rows = part[positions[query, place] - first]
        squared[query, place] = np.square(rows - queries[query], dtype=np.float64).sum(1)
        first += len(part)
    farthest = np.sqrt(true.max(1)) + ROUNDING * np.linalg.norm(queries, axis=1)
    return float(np.mean(np.sqrt(squared) <= farthest[:, None]))


def _without(itself: NDArray[np.integer], distances: NDArray, positions: NDArray) -> tuple[NDArray, NDArray]:
    """Neighbours (M, k) from (M, k + 1), the row itself left out."""
    drop = positions == itself[:, None]
    drop[~drop.any(axis=1), -1] = True  # not found among k + 1: the farthest goes
    return tuple(values[~drop].reshape(len(itself), -1) for values in (distances, positions))


def _blocks(parts: Sequence[NDArray[np.float32]]) -> Iterator[NDArray[np.float32]]:
    return (part[start : start + BLOCK] for part in parts for start in range(0, len(part), BLOCK))


def _share_threads() -> None:
    """Each library has threads of its own: both take the same number, and neither crowds the other out."""
    import faiss
    import torch

    faiss.omp_set_num_threads(torch.get_num_threads())


def _gpus() -> int:
    """GPUs that faiss was built for and sees."""
    import faiss

    return faiss.get_num_gpus() if hasattr(faiss, "StandardGpuResources") else 0


def _on_gpu(index: Any, kind: Kind) -> Any:
    if kind not in ON_GPU or not _gpus():
        return index
    import faiss

    return faiss.index_cpu_to_gpu(faiss.StandardGpuResources(), 0, index)


def _read(file: Path) -> Any:
    import faiss

    return faiss.read_index(str(file))


def _empty_index(vectors: NDArray[np.float32], kind: Kind, probes: int, seed: int) -> Any:
    """A trained faiss index without rows."""
    import faiss

    if probes < 1:
        raise ValueError(f"retrieval.probes must be >= 1, got {probes}")
    size, dimension = vectors.shape
    flat = faiss.IndexFlatL2(dimension)
    if kind == "flat":
        return flat
    if kind == "hnsw":
        graph = faiss.IndexHNSWFlat(dimension, 32)
        graph.hnsw.efConstruction, graph.hnsw.efSearch = 80, 64
        return graph
    lists = max(1, min(int(4 * np.sqrt(size)), size // 39))  # k-means wants 39 rows a list
    index: faiss.IndexIVF
    if kind == "ivf":
        index = faiss.IndexIVFScalarQuantizer(
            flat, dimension, lists, faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_L2, False
        )
    else:
        if size < 256:
            raise ValueError(f"retrieval.index=pq: found {size} rows, allowed: at least 256")
        pieces = next(number for number in range(max(1, dimension // 4), 0, -1) if dimension % number == 0)
        index = faiss.IndexIVFPQ(flat, dimension, lists, pieces, 8)
    index.nprobe, index.cp.seed = min(probes, lists), seed
    sample = min(size, 64 * max(lists, 256))
    rows = np.sort(np.random.default_rng(seed).choice(size, sample, replace=False))
    index.train(np.ascontiguousarray(vectors[rows], np.float32))
    return index
