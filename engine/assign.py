"""New texts to the clusters of a finished run."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Sequence
from math import isfinite
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from clustering.kmeans import Vectors, distances_to_own, nearest, without_direction
from clustering.topics import name_of
from clustering.two_views import TwoViews
from clustering.vectors import WordVectors
from datamodules.samplers import Batches, OrderedBatches
from datamodules.texts.datamodule import predict_loader
from engine.finished import check_encoder, load_weights
from engine.plan import Plan, instantiate_partial
from engine.trainer import resolve_precision
from storage.run_store import RunFolder, first_line

Row = dict[str, Any]
FINAL = "checkpoints/final.ckpt"  # weights of the last epoch
CLUSTERS = "clusters.csv"
OUTLIERS = "outliers"  # what the cluster of those in no cluster is called
TOLERANCE = 1e-4  # in a distance, of the same text encoded among others


def described_clusters(run: RunFolder) -> list[dict[str, str]]:
    """The rows of `clusters.csv`, each with a name: those of an earlier version have that of their words."""
    rows = run.read_csv(CLUSTERS, "cluster", "words", "central")
    return [{"cluster": row["cluster"], "name": name_of_words(row), **row} for row in rows]


def name_of_words(row: dict[str, str]) -> str:
    """What the cluster of a row of `clusters.csv` is called where nobody names it."""
    return name_of(row["words"].split(), int(row["cluster"]))


class Assigner:
    """Gives texts their `cluster` and how sure that is: `probability`, or with k-means `distance` to the centre.

    The distance of a text without a known word is None: its vector is zero, and near to nothing. `name` is what the
    cluster is called, empty where no text of the run is in it.

    Attributes:
        num_clusters: K; a text in cluster K is an outlier.
    """

    def __init__(self, run: RunFolder, plan: Plan) -> None:
        opened = _module_assigner(run, plan) if plan.trains else _centre_assigner(run, plan)
        self.assign, self.num_clusters = opened
        self.columns = ("cluster", "probability" if plan.trains else "distance", "name")
        self.names = {int(row["cluster"]): row["name"] for row in described_clusters(run)}

    def vectors(self, texts: Sequence[str]) -> Vectors:
        """What the centres of the run are means of, for these texts: (N, D)."""
        return self.assign(list(texts))[2]

    def answers(self, texts: list[str]) -> list[Row]:
        """The values of `columns` for each text."""
        clusters, values, _ = self.assign(texts)
        return [
            {
                "cluster": cluster,
                self.columns[1]: round(value, 6) if isfinite(value) else None,
                "name": self.names.get(cluster, ""),
            }
            for cluster, value in zip(clusters.tolist(), values.tolist(), strict=True)
        ]


Assignments = tuple[NDArray[np.int64], NDArray[np.float32], Vectors]  # clusters, how sure, vectors


def _centre_assigner(run: RunFolder, plan: Plan) -> tuple[Callable[[list[str]], Assignments], int]:
    method = instantiate_partial(plan.config.method)()
    try:
        model = dict(np.load(run.check_weights("model.npz")))  # arrays alone: nothing is unpickled
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{run.path / 'model.npz'}: cannot be read ({first_line(error)})") from error
    vectorise: Callable[[list[str]], Vectors]
    if method.vectors == "encoder":
        check_encoder(run, plan)
        vectorise = Embeddings(plan)
    else:
        vectorise = WordVectors(method.vectors, model["words"], model["rarity"])

    two_views = None
    if "word_weight" in model:
        parts = TwoViews(**{key: model[key] for key in TwoViews.__dataclass_fields__})
        two_views = WordVectors("tfidf", model["words"], model["rarity"]), parts

    def assign(texts: list[str]) -> Assignments:
        texts = [plan.dataset.cleaned(text) for text in texts]  # as those that the centres were made from
        vectors = method.scaled(vectorise(texts))
        clusters, squares = nearest(vectors, model["centres"])
        if two_views is not None:
            clusters = two_views[1].clusters(vectors, two_views[0](texts))
            squares = distances_to_own(vectors, model["centres"], clusters)
        squares[without_direction(vectors)] = np.inf
        distances = np.sqrt(squares)
        if (reach := model.get("reach")) is not None:
            clusters = within_reach(clusters, distances, reach)
        return clusters, distances, vectors

    return assign, len(model["centres"])


def within_reach(
    clusters: NDArray[np.int64], distances: NDArray[np.float32], reach: NDArray[np.float32]
) -> NDArray[np.int64]:
    """The nearest clusters (N,), at these distances (N,), or K where none of the K has so far a text: an outlier."""
    return np.where(distances > reach[clusters] + TOLERANCE, len(reach), clusters)


class Embeddings:
    """Embeddings (N, D) of texts by the encoder of a plan as it comes."""

    def __init__(self, plan: Plan) -> None:
        self.encoder = plan.encoder.load(plan.config.seed).eval()
        self.tokenizer, self.max_length = plan.encoder.tokenizer(), plan.dataset.max_length
        self.sampler = plan.sampler()

    @torch.inference_mode()
    def __call__(self, texts: list[str]) -> NDArray[np.float32]:
        width: Any = self.encoder.hidden_size
        embeddings = np.empty((len(texts), width), np.float32)
        for batch in predict_loader(texts, self.tokenizer, self.max_length, self.sampler):
            embeddings[batch["indices"].numpy()] = self.encoder(batch["input_ids"], batch["attention_mask"]).numpy()
        return embeddings


class _SeededOrder:
    """Evaluation batches in an order that depends on the seed and the number of texts alone."""

    def __init__(self, seed: int, batch_size: int) -> None:
        self.seed, self.batch_size = seed, batch_size

    def eval(self, lengths: NDArray) -> Batches:
        order = np.random.default_rng([self.seed, len(lengths)]).permutation(len(lengths))
        return OrderedBatches(order, self.batch_size)


def _module_assigner(run: RunFolder, plan: Plan) -> tuple[Callable[[list[str]], Assignments], int]:
    number = run.metric("cluster/num_clusters", int)
    module = plan.clustering_module(number)
    load_weights(module, run, plan, FINAL, more_allowed=True)
    module.eval()
    tokenizer, max_length = plan.encoder.tokenizer(), plan.dataset.max_length
    order = _SeededOrder(plan.config.seed, plan.plain["sampler"]["eval_batch_size"])
    bf16 = resolve_precision(plan.plain["trainer"]["precision"], "cpu").startswith("bf16")

    @torch.inference_mode()
    def assign(texts: list[str]) -> Assignments:
        logits, embeddings, rows = [], [], []
        cleaned = [plan.dataset.cleaned(text) for text in texts]
        for batch in predict_loader(cleaned, tokenizer, max_length, order):
            with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
                output = module(batch)
            logits.append(output["logits"].float())
            embeddings.append(output["embeddings"].float())
            rows.append(batch["indices"])
        back = torch.cat(rows).argsort()
        values, clusters = torch.cat(logits)[back].softmax(1).max(1)
        return clusters.numpy(), values.numpy(), torch.cat(embeddings)[back].numpy()

    return assign, number
