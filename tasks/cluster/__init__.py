"""Cluster texts: find the clusters, score them where there are labels, and say what each is about."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import lightning.pytorch as pl
import numpy as np
import torch
from numpy.typing import NDArray
from omegaconf import DictConfig
from scipy.sparse import csr_matrix

from clustering.kmeans import Vectors, distances_to_own, means, nearest, unit_rows, without_direction
from clustering.methods import (
    AgreementClustering,
    DenseWordsClustering,
    DensityClustering,
    KMeansClustering,
    TwoViewClustering,
)
from clustering.number import estimate_num_clusters
from clustering.scores import clustering_scores, negative_similarity
from clustering.topics import Topic, name_of, topics
from clustering.two_views import Agreed
from clustering.vectors import WordVectors
from datamodules.streams import NUMBER_STREAM, START_STREAM
from datamodules.texts.datamodule import TextDataModule
from engine.assign import CLUSTERS, FINAL, OUTLIERS, described_clusters, name_of_words, within_reach
from engine.environment import ENVIRONMENT, environment, write_environment
from engine.identity import run_id
from engine.label_kind import refuse_several_labels
from engine.plan import Plan, instantiate_partial
from engine.trainer import SCHEDULE_EPOCHS
from lightning_modules.methods.clustering.base import ClusteringModule
from reporting.escape import shortened
from reporting.tables import Table, clustering_table
from storage.files import replacing
from storage.run_store import RunFolder, damage_named
from tasks.cluster.number import write_estimate
from tasks.cluster.page import write_page
from tasks.cluster.space import Space
from tasks.fit import record_once, run_and_log, run_names, seconds_before, watched_trainer

ORDERS = 5  # orders of evaluation, where the order counts
SHOWN = 20  # clusters in the printed table


@dataclass(frozen=True)
class Clustering:
    """A method's result: cluster, distance and confidence (N,) of each text, what was clustered, its centres (K, D).

    Outliers are in cluster K, where there are any. `as_new` are clusters and distances (N,) that these texts would have
    as new ones, where those are assigned by another rule.
    """

    clusters: NDArray[np.int64]
    distances: NDArray[np.float32]
    confidence: tuple[str, NDArray[np.float32]]
    vectors: Vectors
    centres: NDArray[np.float32]
    figures: dict[str, Any] = field(default_factory=dict)
    as_new: tuple[NDArray[np.int64], NDArray[np.float32]] | None = None

    @property
    def num_clusters(self) -> int:
        """K, and one more for outliers."""
        return max(len(self.centres), int(self.clusters.max()) + 1)


def cluster(config: DictConfig, overrides: list[str]) -> Path:
    """Do the clustering that `config` describes, unless the run store holds it finished; returns its folder.

    All rows of the data set are clustered, those of every split. Labels, where there are any, are read for the scores
    and, with `method.num_clusters=null`, counted; nothing else sees them. A stop is gone on from as in `tasks.fit`.
    """
    plan = Plan.make(config, overrides)
    run = clustered_run(plan)
    try:
        with run.lock():
            page = write_page(plan, run)
    finally:  # the scores are there, whatever is wrong with a name or a level
        with damage_named(run):
            _report(run)
    print(f"map, words, hierarchy and outliers: {page}")
    return run.path


def clustered_run(plan: Plan) -> RunFolder:
    """The finished run of a plan: the one that lies in the run store, or one that is done now."""
    run = RunFolder(Path(plan.config.paths.runs) / run_id(plan.plain, plan.inputs()))
    with run.lock():
        record_once(run, plan.config, run_names(plan), lambda: run_and_log(plan, run, _cluster))
    return run


def _cluster(plan: Plan, run: RunFolder) -> dict[str, Any]:
    started, earlier = time.perf_counter(), seconds_before(run)
    pl.seed_everything(plan.config.seed, verbose=False)
    if plan.plain["trainer"]["num_threads"]:
        torch.set_num_threads(plan.plain["trainer"]["num_threads"])
    corpus = plan.corpus(whole=True)
    refuse_several_labels("task=cluster", corpus)
    table = corpus.table("train")
    texts: list[str] = table["text"].to_pylist()
    labels = table["label"].to_numpy() if corpus.is_labelled else None
    if labels is None:
        print("the data set has no labels: the report is without scores", file=sys.stderr)
    cluster_texts = _learn_clusters if plan.trains else _clusters_of_vectors
    result = cluster_texts(plan, run, corpus, texts)
    distances = np.sqrt(result.distances)
    seed = plan.config.seed
    Space.measured(result.vectors, result.clusters, result.centres, distances, seed, result.as_new).save(run)
    names = corpus.label_names
    _write(run, texts, [] if labels is None else [names[label] for label in labels], result)
    scores = {} if labels is None else _scores(labels, result)
    sizes = np.bincount(result.clusters, minlength=result.num_clusters)
    figures = {
        "num_clusters": result.num_clusters,
        "occupied": int((sizes > 0).sum()),
        "largest": int(sizes.max()),
        "smallest": int(sizes[sizes > 0].min()),
        "texts": len(texts),
        "classes": None if labels is None else len(names),
    }
    return {
        **{f"cluster/{name}": value for name, value in (scores | figures).items()},
        **result.figures,
        "seconds/total": earlier + time.perf_counter() - started,
    }


def _scores(labels: NDArray, result: Clustering) -> dict[str, float]:
    """Scores, outliers as a cluster of their own; `_assigned`: each in the cluster with the nearest centre."""
    scores = clustering_scores(labels, result.clusters)
    outliers = result.clusters >= len(result.centres)
    if not outliers.any() or not len(result.centres):
        return scores
    assigned = result.clusters.copy()
    assigned[outliers] = nearest(result.vectors[outliers], result.centres)[0]
    again = clustering_scores(labels, assigned)
    return scores | {f"{name}_assigned": value for name, value in again.items()}


def _num_clusters(plan: Plan, run: RunFolder, num_labels: int, num_texts: int, vectors: Any) -> int:
    """K: as said, as many as there are labels, or estimated from `vectors()`."""
    num_clusters = plan.plain["method"]["num_clusters"]
    if num_clusters == "auto":
        rng = np.random.default_rng([plan.config.seed, 0, NUMBER_STREAM])
        estimate = estimate_num_clusters(vectors(), rng)
        write_estimate(run, estimate)
        return estimate.number
    if num_clusters is None and num_labels < 2:
        reason = "no labels" if not num_labels else "one label only"
        raise ValueError(f"method.num_clusters: found null, and the data set has {reason}; allowed: a number, auto")
    if num_clusters and num_clusters > num_texts:
        raise ValueError(f"method.num_clusters: found {num_clusters}, allowed: 2 to {num_texts}, the texts there are")
    return num_clusters or num_labels


def _clusters_of_vectors(plan: Plan, run: RunFolder, corpus: Any, texts: list[str]) -> Clustering:
    method: KMeansClustering | AgreementClustering | TwoViewClustering | DensityClustering
    method = instantiate_partial(plan.config.method)()
    if plan.config.get("logger"):
        instantiate_partial(plan.config.logger)(run=run, config=plan.plain)  # it gets the outcome
    arrays: dict[str, Any] = {}
    if method.vectors == "encoder":
        vectors: Any = np.array(plan.features(plan.datamodule(corpus))["train"][0])
    else:
        words = WordVectors.fit(method.vectors, texts, method.max_words)
        vectors, arrays = words(texts), words.arrays()
    vectors = method.scaled(vectors)
    rng = np.random.default_rng([plan.config.seed, 0, START_STREAM])
    if isinstance(method, DenseWordsClustering):
        result, arrays = _by_two_views(lambda words: method.agreed(vectors, words, rng), vectors, texts)
    elif isinstance(method, DensityClustering):
        result = _by_density(method, vectors)
        arrays = {"reach": (reach := _reach(result))}
        result = replace(result, as_new=_as_new(vectors, result.centres, reach))
    else:
        number = _num_clusters(plan, run, len(corpus.label_names), len(texts), lambda: vectors)
        if isinstance(method, TwoViewClustering):
            result, arrays = _by_two_views(lambda words: method(vectors, words, number, rng), vectors, texts)
        else:
            result = _by_centres(method, vectors, number, rng)
    with replacing(run.path / "model.npz") as file:
        np.savez(file, centres=result.centres, **arrays)
    run.write_json(ENVIRONMENT, environment(plan, corpus))
    return result


def _by_centres(
    method: KMeansClustering | AgreementClustering, vectors: Any, number: int, rng: np.random.Generator
) -> Clustering:
    ready = time.perf_counter()
    result = method(vectors, number, rng)
    seconds = time.perf_counter() - ready
    distances = distances_to_own(vectors, result.centres, result.assignments)
    distances[without_direction(vectors)] = np.inf
    figures = {"cluster/inertia": result.inertia, "seconds/fit": seconds, **result.figures}
    confidence = ("distance", np.sqrt(distances))
    return Clustering(result.assignments, distances, confidence, vectors, result.centres, figures)


def _by_two_views(
    agree: Callable[[csr_matrix], Agreed], vectors: NDArray[np.float32], texts: list[str]
) -> tuple[Clustering, dict[str, Any]]:
    """The clusters, and what gives new texts theirs; `agree` is asked with the words of the texts."""
    ready = time.perf_counter()
    words = WordVectors.fit("tfidf", texts)
    agreed = agree(words(texts))
    figures = {"seconds/fit": time.perf_counter() - ready, **agreed.figures}
    centres = means(vectors, agreed.assignments, len(agreed.model.bias))
    distances = distances_to_own(vectors, centres, agreed.assignments)
    confidence = ("distance", np.sqrt(distances))
    result = Clustering(agreed.assignments, distances, confidence, vectors, centres, figures)
    return result, words.arrays() | agreed.model.arrays()


def _by_density(method: DensityClustering, vectors: NDArray[np.float32]) -> Clustering:
    ready = time.perf_counter()
    assigned = method(vectors)
    seconds = time.perf_counter() - ready
    count, outliers = int(assigned.max()) + 1, assigned < 0
    clusters = np.where(outliers, count, assigned)
    centres = means(vectors, clusters, count + 1)[:count]
    distances = distances_to_own(vectors, np.vstack([centres, centres[:1]]), clusters)
    if outliers.any():
        distances[outliers] = nearest(vectors[outliers], centres)[1]
    figures = {"cluster/outliers": float(outliers.mean()), "seconds/fit": seconds}
    return Clustering(clusters, distances, ("distance", np.sqrt(distances)), vectors, centres, figures)


def _reach(result: Clustering) -> NDArray[np.float32]:
    """Of each cluster the distance of its farthest text: (K,). A new text beyond it is an outlier."""
    inside = result.clusters < len(result.centres)
    reach = np.zeros(len(result.centres), np.float32)
    np.maximum.at(reach, result.clusters[inside], np.sqrt(result.distances[inside]))
    return reach


def _as_new(
    vectors: NDArray[np.float32], centres: NDArray[np.float32], reach: NDArray[np.float32]
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """What the texts get by the rule for new ones: their clusters come of the density, and new texts have none."""
    clusters, squares = nearest(vectors, centres)
    return within_reach(clusters, distances := np.sqrt(squares), reach), distances


def _learn_clusters(plan: Plan, run: RunFolder, corpus: Any, texts: list[str]) -> Clustering:
    started = time.perf_counter()
    datamodule = plan.datamodule(corpus)
    number = _num_clusters(plan, run, len(corpus.label_names), len(texts), lambda: _pretrained(plan, corpus))
    module = plan.clustering_module(number)
    plan.encode_once(module.encoder, datamodule)
    module.run_id = run.id
    trainer = watched_trainer(plan, run, datamodule)
    if (top := module.encoder.top_layers) is not None:
        left = "the layers below stay as they come; encoder.train=full trains all, as papers do, in more time"
        print(f"encoder.train=top_layers: {len(top.top)} of the encoder's layers train, {left}", file=sys.stderr)
    epochs = cast(int, trainer.max_epochs)
    if plan.plain["trainer"]["max_epochs"] == "by_size" and epochs != SCHEDULE_EPOCHS:
        module.schedule_share = epochs / SCHEDULE_EPOCHS
        whole = f"trainer.max_epochs={SCHEDULE_EPOCHS} is the whole schedule"
        shorter = f"{epochs} epochs for so many texts, stages in proportion"
        print(f"trainer.max_epochs=by_size: {shorter}; {whole}", file=sys.stderr)
    last = run.last_checkpoint
    write_environment(run, environment(plan, corpus, trainer), goes_on=last.is_file())
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*you have no `validation_step`.*")
        trainer.fit(module, datamodule, ckpt_path=last if last.is_file() else None, weights_only=True)
    trained = time.perf_counter()
    trainer.save_checkpoint(run.path / FINAL, weights_only=True)
    result = _evaluate(plan, run, module, datamodule)
    callbacks: list[Any] = trainer.callbacks  # type: ignore[attr-defined]
    curves = [callback for callback in callbacks if hasattr(callback, "oracle")]
    figures = {
        **{name: value for callback in curves for name, value in callback.oracle().items()},
        "augment": datamodule.augment_report,
        "epochs": trainer.current_epoch,
        "seconds/fit": trained - started,
    }
    return replace(result, figures=figures | result.figures)


def _pretrained(plan: Plan, corpus: Any) -> NDArray[np.float32]:
    """Embeddings of unit length of the encoder before it is trained."""
    datamodule = plan.datamodule(corpus, num_views=1)
    return unit_rows(np.array(plan.features(datamodule)["train"][0]))


def _evaluate(plan: Plan, run: RunFolder, module: ClusteringModule, datamodule: TextDataModule) -> Clustering:
    """Clusters of the weights of the last epoch in the first order of evaluation; what other orders would change."""
    labels = datamodule.corpus.table("train")["label"].to_numpy()
    has_labels = datamodule.corpus.is_labelled
    first = _outputs(plan, run, module, datamodule, 0, labels if has_labels else None)
    clusters, figures = first["clusters"], first["figures"]
    if module.depends_on_companions:
        others = [_outputs(plan, run, module, datamodule, number, None)["clusters"] for number in range(1, ORDERS)]
        figures["orders/changed"] = float(np.mean([(other != clusters).mean() for other in others]))
        if has_labels:
            scores = [clustering_scores(labels, assigned) for assigned in (clusters, *others)]
            for name in ("acc", "nmi"):
                values = [score[name] for score in scores]
                figures |= {f"orders/{name}_min": min(values), f"orders/{name}_max": max(values)}
    centres = means(first["embeddings"], clusters, module.num_clusters)
    distances = distances_to_own(first["embeddings"], centres, clusters)
    confidence = ("probability", first["probabilities"])
    return Clustering(clusters, distances, confidence, first["embeddings"], centres, figures)


def _outputs(
    plan: Plan,
    run: RunFolder,
    module: ClusteringModule,
    datamodule: TextDataModule,
    order: int,
    labels: NDArray | None,
) -> dict[str, Any]:
    trainer = instantiate_partial(plan.config.trainer)(run_folder=run.path, callbacks=[], logger=False, plugins=[])
    batches: Any = trainer.predict(module, datamodule.ordered_loader(order), return_predictions=True)
    rows = torch.cat([batch["indices"] for batch in batches])
    back = rows.argsort()
    probabilities, clusters = torch.cat([batch["logits"].float() for batch in batches])[back].softmax(1).max(1)
    figures = {}
    if "similarity" in batches[0]:
        itself = sum(batch["similarity"].float().diagonal().sum().item() for batch in batches) / len(rows)
        figures = {"cluster/self_attention": itself}
        if labels is not None:
            parts = [(negative_similarity(b["similarity"].float().numpy(), labels[b["indices"]]), b) for b in batches]
            share = sum(ns * len(batch["indices"]) for ns, batch in parts) / len(rows)
            figures |= {"cluster/ns": share, "cluster/ps": 1 - share}
    return {
        "clusters": clusters.numpy(),
        "probabilities": probabilities.numpy(),
        "embeddings": torch.cat([batch["embeddings"].float() for batch in batches])[back].numpy(),
        "figures": figures,
    }


def _write(run: RunFolder, texts: list[str], labels: list[str], result: Clustering) -> None:
    name, values = result.confidence
    label_column = labels or [""] * len(texts)
    shown = (f"{value:.6f}" if np.isfinite(value) else "" for value in values)
    rows = zip(range(len(texts)), label_column, result.clusters.tolist(), shown, texts, strict=True)
    run.write_csv("predictions.csv", rows, ("index", "label", "cluster", name, "text"))
    all_topics = topics(texts, result.distances, result.clusters)
    cluster_rows = _cluster_rows(all_topics, texts, labels, result.clusters, len(result.centres))
    run.write_csv(CLUSTERS, cluster_rows, HEADER)


HEADER = ("cluster", "name", "texts", "label", "share", "words", "central", "central_2", "central_3")


def _cluster_rows(
    all_topics: list[Topic], texts: list[str], labels: list[str], clusters: NDArray, num_centres: int
) -> list[tuple]:
    """A line a cluster; `label` is the most frequent one, `share` how many texts have it."""
    lines = []
    names, codes = np.unique(labels, return_inverse=True)
    for topic in all_topics:
        label, share = "", ""
        if labels:
            counts = np.bincount(codes[clusters == topic.cluster])
            label, share = names[counts.argmax()], f"{counts.max() / topic.size:.4f}"
        central = [texts[row] for row in topic.central] + [""] * (3 - len(topic.central))
        name = OUTLIERS if topic.cluster >= num_centres else name_of(topic.words, topic.cluster)
        lines.append((topic.cluster, name, topic.size, label, share, " ".join(topic.words), *central))
    return lines


COLUMNS = {  # of the printed table
    **{"cluster": "cluster", "name": "name", "texts": "texts", "label": "most frequent label", "share": "its share"},
    **{"words": "words", "central": "central text"},
}


def _report(run: RunFolder) -> None:
    metrics, rows = run.read_metrics(), described_clusters(run)
    clustering_table(metrics).show()
    print()
    hidden = set() if any(row["label"] for row in rows) else {"label", "share"}
    if all(row["name"] in (name_of_words(row), OUTLIERS) for row in rows):
        hidden.add("name")  # the words stand beside it
    header = {name: title for name, title in COLUMNS.items() if name not in hidden}
    cells = tuple(tuple(shortened(row[name], 60) for name in header) for row in rows[:SHOWN])
    title = f"{min(SHOWN, len(rows))} of {len(rows)} clusters, largest first; all, with more texts, in {CLUSTERS}"
    Table(title, tuple(header.values()), cells).show()
