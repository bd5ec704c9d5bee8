"""`retrieval=knn`: the datastore of a run, the vote chosen on validation rows, and the figures with and without it."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from hydra.utils import instantiate
from numpy.typing import NDArray
from scipy.special import softmax

from callbacks.predictions import HEADER
from callbacks.rows import Rows
from datamodules.datamodule import TextDataModule
from datamodules.sources import file_sha256
from reporting.metrics import classification_metrics
from reporting.run_store import RunFolder
from retrieval import Datastore, Index, NearestNeighbours, Vote, recall, shared_label_share
from tasks.build import Plan

FOLDER = "datastore"
QUERIES = 256  # rows that recall and the share of shared labels are measured on
NEIGHBOURS = 10  # of which recall is
Scores = NDArray[np.floating]


def retrieval_of(plan: Plan) -> NearestNeighbours | None:
    """What the config's group `retrieval` asks for. Raises ValueError: an option out of its range."""
    return instantiate(plan.config.retrieval, _convert_="all") if plan.config.get("retrieval") else None


def model_hash(run: RunFolder, plan: Plan) -> str:
    """Hash of all that decides an embedding: the selected weights, those that were not trained, and how texts enter."""
    parts = (
        file_sha256(run.checkpoints / "best.ckpt"),
        plan.encoder.weights_hash(),
        plan.encoder.pooling,
        plan.dataset.max_length,
    )
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def open_datastore(run: RunFolder, plan: Plan) -> Datastore:
    """The datastore of a finished run. Raises ValueError: there is none, it is damaged, or of another model."""
    if not plan.config.get("retrieval"):
        raise ValueError(f"run={run.id}: it has no datastore; needed: a run with retrieval=knn")
    return Datastore.open(run.path / FOLDER, model_hash(run, plan))


def chosen_vote(metrics: Mapping[str, Any]) -> Vote:
    """The vote that a run chose on its validation rows."""
    return Vote(*(metrics[f"retrieval/{name}"] for name in ("num_neighbours", "temperature", "lam")))


def retrieval_figures(
    plan: Plan, run: RunFolder, datamodule: TextDataModule, rows: Rows, keep_store: bool
) -> dict[str, Any]:
    """Figures of every measured split with and without the neighbours, from the rows of one forward pass.

    The vote is that of the best figure on the rows that choose the epoch, too.

    Args:
        rows: of the splits "train", "test" and, but under the published protocol, "val".
        keep_store: use the datastore that lies in the run's folder, with what was added to it, where there is one.

    Returns:
        ``retrieval/*`` (the vote, index, rows, size, recall), ``SPLIT/retrieval_*`` (with the neighbours),
        ``SPLIT/neighbours_*`` (the neighbours alone) and ``seconds/retrieval_*``.
    """
    retrieval = retrieval_of(plan)
    splits = [split for split in ("val", "test") if split in rows.splits]
    started = time.perf_counter()
    store = _store(plan, run, datamodule, rows, keep_store)
    index = retrieval.open_index(store, plan.config.seed)
    built = time.perf_counter()
    seen = {split: Seen(rows, split, store, index, max(retrieval.ks)) for split in splits}
    searched = (time.perf_counter() - built) / sum(map(len, seen.values()))

    first = seen[splits[0]]
    metric = retrieval.metric or _monitored(datamodule.protocol.monitor)
    measure = _measure(datamodule)
    chosen = retrieval.choose(
        first.distances, store.labels(first.positions), first.of_model, lambda s: measure(splits[0], s)[metric]
    )
    figures: dict[str, Any] = {f"retrieval/{name}": value for name, value in vars(chosen).items()}
    figures |= _facts(run, datamodule, rows, store, index, first.embeddings)
    table = []
    for split, one in seen.items():
        alone = chosen.scores(store, one.distances, one.positions)
        final = chosen.mixed(alone, one.of_model)
        for name, scores in (("retrieval", final), ("neighbours", alone)):
            figures |= {f"{split}/{name}_{key}": value for key, value in measure(split, scores).items()}
        truth = _one_hot(datamodule.labels[split], len(datamodule.label_names))
        shared = store.labels(one.positions[:, : chosen.num_neighbours])
        figures[f"{split}/neighbours_shared_labels"] = shared_label_share(shared, truth)
        table += _prediction_rows(datamodule, split, final)
    run.write_csv("predictions_retrieval.csv", table, HEADER)
    return figures | {"seconds/retrieval_build": built - started, "seconds/retrieval_search_per_text": searched}


class Seen:
    """Rows of a split, (N, D), the model's probabilities (N, C), and their neighbours (N, k)."""

    def __init__(self, rows: Rows, split: str, store: Datastore, index: Index, k: int) -> None:
        self.embeddings, logits = rows.of(split)
        self.of_model = softmax(logits.astype(np.float64), axis=1)
        self.distances, self.positions = index.search(self.embeddings, min(k, len(store)))

    def __len__(self) -> int:
        return len(self.embeddings)


def _store(plan: Plan, run: RunFolder, datamodule: TextDataModule, rows: Rows, keep: bool) -> Datastore:
    folder, encoder = run.path / FOLDER, model_hash(run, plan)
    if keep and (folder / "header.json").is_file():
        return Datastore.open(folder, encoder)
    config = {"run": run.id, "encoder": dict(plan.plain["encoder"]), "max_length": plan.dataset.max_length}
    labels = [[int(label)] for label in datamodule.labels["train"]]
    texts = datamodule.texts("train")
    return Datastore.create(folder, encoder, config, datamodule.label_names, rows.of("train")[0], labels, texts)


def _facts(
    run: RunFolder, datamodule: TextDataModule, rows: Rows, store: Datastore, index: Index, queries: NDArray
) -> dict[str, Any]:
    """Size of the datastore, recall of its index, and how alike neighbours of train rows are, themselves left out."""
    chosen = np.linspace(0, len(queries) - 1, min(QUERIES, len(queries))).astype(int)
    found = recall(index, store.vectors(), queries[chosen], NEIGHBOURS) if index.kind != "flat" else 1.0
    size = sum(file.stat().st_size for file in Path(run.path / FOLDER).rglob("*") if file.is_file())
    train = rows.of("train")[0]
    own = np.linspace(0, len(train) - 1, min(QUERIES, len(train))).astype(int)
    positions = index.search(train[own], min(NEIGHBOURS, len(store) - 1), itself=own)[1]
    truth = _one_hot(datamodule.labels["train"][own], len(datamodule.label_names))
    return {
        "retrieval/index": index.kind,
        "retrieval/rows": len(store),
        "retrieval/mib": size / 2**20,
        f"retrieval/recall_at_{NEIGHBOURS}": found,
        "train/neighbours_shared_labels": shared_label_share(store.labels(positions), truth),
    }


def _measure(datamodule: TextDataModule) -> Callable[[str, Scores], dict[str, float]]:
    """(split, scores (N, C)) -> figures."""
    number, counts = len(datamodule.label_names), datamodule.class_counts.numpy()
    return lambda split, scores: classification_metrics(
        datamodule.labels[split], scores.argmax(axis=1), number, counts
    )


def _monitored(monitor: str) -> str:
    name = monitor.rpartition("/")[2]
    return "macro_f1" if name == "loss" else name


def _one_hot(labels: NDArray[np.int64], num_classes: int) -> NDArray[np.float32]:
    return np.eye(num_classes, dtype=np.float32)[labels]


def _prediction_rows(datamodule: TextDataModule, split: str, scores: Scores) -> list[tuple[Any, ...]]:
    names, labels, best = datamodule.label_names, datamodule.labels[split], scores.argmax(axis=1)
    return [
        (split, number, names[label], names[prediction], f"{row[prediction]:.6f}")
        for number, (label, prediction, row) in enumerate(zip(labels, best, scores, strict=True))
    ]
