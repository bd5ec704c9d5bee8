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
from numpy.typing import NDArray

from callbacks.evaluation_rows import ModelOutputs
from callbacks.predictions import HEADER
from datamodules.datamodule import DataModule
from datamodules.texts.datamodule import TextDataModule
from datamodules.texts.tokens import tokenizer_fingerprint
from engine.plan import Plan
from engine.results import Results
from lightning_modules.base import ClassifierModule
from retrieval import Datastore, Index, NearestNeighbours, Vote, recall, shared_label_share
from storage.errors import InputError
from storage.files import file_sha256
from storage.run_store import RunFolder, damage_named

FOLDER = "datastore"
QUERIES = 256  # rows that recall and the share of shared labels are measured on
NEIGHBOURS = 10  # of which recall is
Scores = NDArray[np.floating]


def build_retrieval(plan: Plan) -> NearestNeighbours | None:
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
    datamodule: Any,
    results: Results,
    outputs: ModelOutputs,
    keep_store: bool,
) -> dict[str, Any]:
    """Figures of every measured split with and without the neighbours, from the rows of one forward pass.

    The vote is that of the best figure on the rows that choose the epoch, too; where texts have several labels and the
    method chooses its threshold, it is chosen anew for every vote. Without such rows there is one vote to take. With
    the datastore of a run come its vote and threshold: they are what answers, whatever was added since.

    Args:
        outputs: of the splits "train", "test" and, but under the published protocol, "val".
        keep_store: use the datastore that lies in the run's folder, with what was added to it, where there is one.

    Returns:
        ``retrieval/*`` (the vote, its threshold, index, rows, size, recall), ``SPLIT/retrieval_*`` (with the
        neighbours), ``SPLIT/neighbours_*`` (the neighbours alone) and ``seconds/retrieval_*``.
    """
    retrieval = build_retrieval(plan)
    assert retrieval is not None
    assert "val" in datamodule.indices or retrieval.num_votes == 1  # which nothing else could choose than test
    splits: list[str] = [split for split in ("val", "test") if split in outputs.splits]
    started = time.perf_counter()
    is_kept = keep_store and (run.path / FOLDER / "header.json").is_file()
    store = _store(plan, run, datamodule, outputs, is_kept)
    index = retrieval.open_index(store, plan.config.seed)
    built = time.perf_counter()
    most = min(max(retrieval.ks), len(store))
    searched = {split: SearchedRows(outputs, split, datamodule.labels[split], module, index, most) for split in splits}
    seconds_per_text = (time.perf_counter() - built) / sum(len(rows.labels) for rows in searched.values())
    if is_kept:
        with damage_named(run):
            vote = chosen_vote(run.read_metrics())
    else:
        vote = _best_vote(retrieval, store, searched[splits[0]], results, datamodule.protocol.monitor or "accuracy")
    threshold = run.read_metrics().get("retrieval/threshold") if is_kept else None
    figures: dict[str, Any] = {f"retrieval/{name}": value for name, value in vars(vote).items()}
    figures |= _facts(run, datamodule, outputs, store, index, outputs.embeddings(splits[0]))
    figures |= _voted(run, vote, store, searched, results, threshold)
    for split, rows in searched.items():
        shared = store.labels(rows.positions[:, : vote.num_neighbours])
        figures[f"{split}/neighbours_shared_labels"] = shared_label_share(shared, _label_rows(datamodule, split))
    return figures | {"seconds/retrieval_build": built - started, "seconds/retrieval_search_per_text": seconds_per_text}


def need_neighbours(datamodule: DataModule) -> None:
    """Raises InputError where no row has a label, to be a neighbour, or none is left to measure them on."""
    if not len(datamodule.indices["train"]):
        raise InputError("retrieval: needs rows with a label, found none; allowed: null, or some labels")
    if not {"val", "test"} & set(datamodule.indices):
        raise InputError("retrieval: found no validation or test rows to measure neighbours on; allowed: null, or some")


class SearchedRows:
    """Rows of a split: labels, the model's probabilities (N, C), and distances and positions of neighbours (N, k)."""

    def __init__(
        self, outputs: ModelOutputs, split: str, labels: NDArray, module: ClassifierModule, index: Index, k: int
    ) -> None:
        self.labels = labels
        logits = torch.from_numpy(outputs.logits(split)).double()
        self.model_probabilities = module.probabilities(logits).numpy()
        self.distances, self.positions = index.search(outputs.embeddings(split), k)


def _best_vote(
    retrieval: NearestNeighbours, store: Datastore, rows: SearchedRows, results: Results, monitor: str
) -> Vote:
    """The vote of the best figure on these rows: the one that `retrieval` names, or that which chooses the epoch."""
    metric = retrieval.metric or _monitored(monitor)

    def score(scores: Scores) -> float:
        threshold: Any = results.choose_threshold(rows.labels, scores)
        return results.metrics(rows.labels, scores, threshold)[metric]

    return retrieval.choose(rows.distances, store.labels(rows.positions), rows.model_probabilities, score)


def _voted(
    run: RunFolder,
    vote: Vote,
    store: Datastore,
    searched: Mapping[str, SearchedRows],
    results: Results,
    threshold: Any,
) -> dict[str, Any]:
    """Figures of every split by the neighbours alone and with them, at thresholds of the first, or of the latter at
    `threshold` where it is chosen already; predictions of the latter are written."""
    figures: dict[str, Any] = {}
    table: list[tuple[Any, ...]] = []
    thresholds: dict[str, Any] = {} if threshold is None else {"retrieval": threshold}
    for split, rows in searched.items():
        neighbours = vote.scores(store, rows.distances, rows.positions)
        mixed = vote.mixed(neighbours, rows.model_probabilities)
        for name, scores in (("neighbours", neighbours), ("retrieval", mixed)):
            if name not in thresholds:
                thresholds[name] = results.choose_threshold(rows.labels, scores)
            metrics = results.metrics(rows.labels, scores, thresholds[name])
            figures |= {f"{split}/{name}_{key}": value for key, value in metrics.items()}
        lines = results.lines(rows.labels, mixed, thresholds["retrieval"])
        table += [(split, number, *line) for number, line in enumerate(lines)]
    run.write_csv("predictions_retrieval.csv", table, HEADER)
    if thresholds["retrieval"] is not None:
        figures["retrieval/threshold"] = np.asarray(thresholds["retrieval"]).tolist()
    return figures


def _store(plan: Plan, run: RunFolder, datamodule: TextDataModule, outputs: ModelOutputs, keep: bool) -> Datastore:
    folder, encoder = run.path / FOLDER, model_hash(run, plan)
    if keep:
        return Datastore.open(folder, encoder)
    config = {"run": run.id, "encoder": dict(plan.plain["encoder"]), "max_length": plan.dataset.max_length}
    labels = [np.flatnonzero(row).tolist() for row in _label_rows(datamodule, "train")]
    texts = datamodule.texts("train")
    return Datastore.create(folder, encoder, config, datamodule.label_names, outputs.embeddings("train"), labels, texts)


def _facts(
    run: RunFolder, datamodule: TextDataModule, outputs: ModelOutputs, store: Datastore, index: Index, queries: NDArray
) -> dict[str, Any]:
    """Size of the datastore, recall of its index, and of two rows or more how alike neighbours of train rows are,
    themselves left out."""
    sample = np.linspace(0, len(queries) - 1, min(QUERIES, len(queries))).astype(int)
    recalled = recall(index, store.vectors(), queries[sample], NEIGHBOURS) if index.kind != "flat" else 1.0
    size = sum(file.stat().st_size for file in Path(run.path / FOLDER).rglob("*") if file.is_file())
    figures = {
        "retrieval/index": index.kind,
        "retrieval/probes": index.probes,
        "retrieval/rows": len(store),
        "retrieval/mib": size / 2**20,
        f"retrieval/recall_at_{NEIGHBOURS}": recalled,
    }
    if len(store) < 2:
        return figures
    train = outputs.embeddings("train")
    train_sample = np.linspace(0, len(train) - 1, min(QUERIES, len(train))).astype(int)
    positions = index.search(train[train_sample], min(NEIGHBOURS, len(store) - 1), itself=train_sample)[1]
    truth = _label_rows(datamodule, "train")[train_sample]
    return figures | {"train/neighbours_shared_labels": shared_label_share(store.labels(positions), truth)}


def _monitored(monitor: str) -> str:
    name = monitor.rpartition("/")[2]
    return "macro_f1" if name == "loss" else name


def _label_rows(datamodule: TextDataModule, split: str) -> NDArray:
    """Labels of a split as (N, C) of 0 and 1."""
    labels = datamodule.labels[split]
    return labels if labels.ndim == 2 else np.eye(len(datamodule.label_names), dtype=np.uint8)[labels]
