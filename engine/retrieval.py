"""`retrieval=knn`: the datastore of a run, the vote chosen on validation rows, and the figures with and without it."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hydra.utils import instantiate
from numpy.typing import ArrayLike, NDArray

from callbacks.predictions import HEADER
from callbacks.rows import Rows
from datamodules.datamodule import TextDataModule
from datamodules.sources import file_sha256
from datamodules.tokens import tokenizer_fingerprint
from engine.plan import Plan
from engine.results import LabelSets, OneLabel
from lightning_modules.base import ClassifierModule
from retrieval import Datastore, Index, NearestNeighbours, Vote, recall, shared_label_share
from storage.run_store import RunFolder

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
        tokenizer_fingerprint(plan.encoder.tokenizer()),
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
    plan: Plan,
    run: RunFolder,
    module: ClassifierModule,
    datamodule: TextDataModule,
    outcome: OneLabel | LabelSets,
    rows: Rows,
    keep_store: bool,
) -> dict[str, Any]:
    """Figures of every measured split with and without the neighbours, from the rows of one forward pass.

    The vote is that of the best figure on the rows that choose the epoch, too; where texts have several labels and the
    method chooses its threshold, it is chosen anew for every vote.

    Args:
        rows: of the splits "train", "test" and, but under the published protocol, "val".
        keep_store: use the datastore that lies in the run's folder, with what was added to it, where there is one.

    Returns:
        ``retrieval/*`` (the vote, its threshold, index, rows, size, recall), ``SPLIT/retrieval_*`` (with the
        neighbours), ``SPLIT/neighbours_*`` (the neighbours alone) and ``seconds/retrieval_*``.
    """
    retrieval = retrieval_of(plan)
    splits = [split for split in ("val", "test") if split in rows.splits]
    started = time.perf_counter()
    store = _store(plan, run, datamodule, rows, keep_store)
    index = retrieval.open_index(store, plan.config.seed)
    built = time.perf_counter()
    most = max(retrieval.ks)
    seen = {split: Seen(*rows.of(split), datamodule.labels[split], module, store, index, most) for split in splits}
    searched = (time.perf_counter() - built) / sum(len(one.labels) for one in seen.values())

    first = seen[splits[0]]
    metric = retrieval.metric or _monitored(datamodule.protocol.monitor)

    def score(scores: Scores) -> float:
        return outcome.judged(first.labels, scores, outcome.threshold_for(first.labels, scores))[metric]

    chosen = retrieval.choose(first.distances, store.labels(first.positions), first.of_model, score)
    figures: dict[str, Any] = {f"retrieval/{name}": value for name, value in vars(chosen).items()}
    figures |= _facts(run, datamodule, rows, store, index, first.embeddings)
    table: list[tuple[Any, ...]] = []
    thresholds: dict[str, ArrayLike | None] = {}
    for split, one in seen.items():
        alone = chosen.scores(store, one.distances, one.positions)
        for name, scores in (("neighbours", alone), ("retrieval", chosen.mixed(alone, one.of_model))):
            if split == splits[0]:
                thresholds[name] = outcome.threshold_for(one.labels, scores)
            judged = outcome.judged(one.labels, scores, thresholds[name])
            figures |= {f"{split}/{name}_{key}": value for key, value in judged.items()}
        lines = outcome.lines(one.labels, scores, thresholds["retrieval"])
        table += [(split, number, *line) for number, line in enumerate(lines)]
        shared = store.labels(one.positions[:, : chosen.num_neighbours])
        figures[f"{split}/neighbours_shared_labels"] = shared_label_share(shared, _label_rows(datamodule, split))
    run.write_csv("predictions_retrieval.csv", table, HEADER)
    if thresholds["retrieval"] is not None:
        figures["retrieval/threshold"] = np.asarray(thresholds["retrieval"]).tolist()
    return figures | {"seconds/retrieval_build": built - started, "seconds/retrieval_search_per_text": searched}


class Seen:
    """Rows of a split: embeddings (N, D), labels, the model's probabilities (N, C), and the neighbours (N, k)."""

    def __init__(
        self, embeddings: Scores, logits: Scores, labels: NDArray, module: ClassifierModule, store: Datastore,
        index: Index, k: int
    ) -> None:  # fmt: skip
        self.embeddings, self.labels = embeddings, labels
        self.of_model = module.probabilities(torch.from_numpy(logits).double()).numpy()
        self.distances, self.positions = index.search(embeddings, min(k, len(store)))


def _store(plan: Plan, run: RunFolder, datamodule: TextDataModule, rows: Rows, keep: bool) -> Datastore:
    folder, encoder = run.path / FOLDER, model_hash(run, plan)
    if keep and (folder / "header.json").is_file():
        return Datastore.open(folder, encoder)
    config = {"run": run.id, "encoder": dict(plan.plain["encoder"]), "max_length": plan.dataset.max_length}
    labels = [np.flatnonzero(row).tolist() for row in _label_rows(datamodule, "train")]
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
    truth = _label_rows(datamodule, "train")[own]
    return {
        "retrieval/index": index.kind,
        "retrieval/probes": index.probes,
        "retrieval/rows": len(store),
        "retrieval/mib": size / 2**20,
        f"retrieval/recall_at_{NEIGHBOURS}": found,
        "train/neighbours_shared_labels": shared_label_share(store.labels(positions), truth),
    }


def _monitored(monitor: str) -> str:
    name = monitor.rpartition("/")[2]
    return "macro_f1" if name == "loss" else name


def _label_rows(datamodule: TextDataModule, split: str) -> NDArray[np.uint8]:
    """Labels of a split as (N, C) of 0 and 1."""
    labels = datamodule.labels[split]
    return labels if labels.ndim == 2 else np.eye(len(datamodule.label_names), dtype=np.uint8)[labels]
