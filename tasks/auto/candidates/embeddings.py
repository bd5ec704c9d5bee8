"""One encoding of the texts that all candidates over the frozen encoder share."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from datamodules.texts.datamodule import predict_loader
from engine.plan import Plan
from lightning_modules.encoders.top_layers import blocks_of
from lightning_modules.heads.tfidf import token_counts
from tasks.auto.candidates.plans import encoder_name

TIMED = 48  # texts that the speed is told from
TIMED_TOGETHER = 8  # of like length, so that they are padded little, as elsewhere
TOKENIZED_TOGETHER = 4096  # texts of those that the cache does not hold
MOST_NAMES = 300  # classes whose names are encoded, in several phrases each


@dataclass(frozen=True)
class Embeddings:
    """Of N texts by the encoder as it comes.

    Attributes:
        rows: (N, D) float32.
        counts: (N, V) of the encoder's tokens, sparse.
        is_cut: (N,) whether a text has as many tokens as are read, or more.
        unlabelled: (M, D) float32, of the texts without a label.
        unlabelled_counts: (M, V), their tokens.
        names: (C, D) of unit length, embeddings of the class names; None where labels are codes or very many.
        seconds_per_text: that encoding takes.
        size_mib: of the encoder's weights.
        encoder: its name.
        blocks: how many it has.
    """

    rows: NDArray[np.float32]
    counts: csr_matrix
    is_cut: NDArray[np.bool_]
    unlabelled: NDArray[np.float32]
    unlabelled_counts: csr_matrix
    names: NDArray[np.float32] | None
    seconds_per_text: float
    size_mib: float
    encoder: str
    blocks: int


@torch.inference_mode()
def seconds_per_text(plan: Plan, texts: Sequence[str]) -> float:
    """What encoding a text takes here, from some of them spread over all."""
    encoder, tokenizer = plan.encoder.load(plan.config.seed).eval().to(plan.device), plan.encoder.tokenizer()
    some = sorted((texts[row] for row in np.linspace(0, len(texts) - 1, min(TIMED, len(texts))).astype(int)), key=len)
    parts = (some[start : start + TIMED_TOGETHER] for start in range(0, len(some), TIMED_TOGETHER))
    batches = [b for part in parts for b in predict_loader(part, tokenizer, plan.dataset.max_length, plan.sampler())]
    _encode(plan, encoder, batches[0])  # the first call makes ready
    started = time.perf_counter()
    for batch in batches:
        _encode(plan, encoder, batch)
    return (time.perf_counter() - started) / len(some)


def _encode(plan: Plan, encoder: Any, batch: Mapping[str, torch.Tensor]) -> NDArray[np.float32]:
    """Embeddings (B, D) of a batch; they are done when it returns, on a GPU too."""
    inputs = (batch[key].to(plan.device) for key in ("input_ids", "attention_mask"))
    return encoder(*inputs).cpu().numpy()


@torch.inference_mode()
def encoded(plan: Plan, label_names: Sequence[str] | None, seconds: float) -> Embeddings:
    """All texts of the plan's corpus and the names of its classes; from the cache where they are there.

    Args:
        plan: of a method over the frozen encoder, one that reads texts without a label where there are any.
        label_names: C; None where no method reads them.
        seconds: of a text, foretold.
    """
    datamodule = plan.datamodule(plan.corpus(whole=True))
    encoder: Any = plan.encoder.load(plan.config.seed).eval()
    number, started = plan.texts_to_encode(datamodule, list(datamodule.indices)), time.perf_counter()
    features = {split: np.array(views[0]) for split, views in plan.features(datamodule, encoder).items()}
    parts = [split for split in ("train", "val") if split in features]  # validation rows are labelled rows, too
    order = np.argsort(np.concatenate([datamodule.indices[split] for split in parts]))
    rows = np.concatenate([features[split] for split in parts])[order]
    tokens = [ids for split in parts for ids in datamodule.token_rows(split)[0]]
    counts = token_counts(tokens, len(encoder.token_embeddings()))[order]
    is_cut = np.array([len(ids) == plan.dataset.max_length for ids in tokens])[order]
    unlabelled = features.get("unlabelled", rows[:0])
    others = datamodule.token_rows("unlabelled")[0] if len(unlabelled) else []
    unlabelled_counts = token_counts(others, counts.shape[1])
    if number:  # the cache had not all of them; of few texts most of the time is what surrounds them
        seconds = min((time.perf_counter() - started) / number, seconds)
    names = None if label_names is None or len(label_names) > MOST_NAMES else plan.class_names(label_names)
    anchors = None if names is None else names(encoder).numpy()
    return Embeddings(
        rows, counts, is_cut, unlabelled, unlabelled_counts, anchors, seconds, _weights_mib(plan.encoder),
        encoder_name(plan.plain["encoder"]), len(blocks_of(encoder.model)[1]),
    )  # fmt: skip


@torch.inference_mode()
def encoded_texts(
    plan: Plan, texts: Sequence[str], vocabulary_size: int
) -> tuple[NDArray[np.float32], csr_matrix, NDArray[np.bool_]]:
    """`rows`, `counts` and `is_cut` of `Embeddings`, of texts that no table of the cache holds."""
    encoder: Any = plan.encoder.load(plan.config.seed).eval().to(plan.device)
    tokenizer, limit = plan.encoder.tokenizer(), plan.dataset.max_length
    rows = np.empty((len(texts), encoder.hidden_size), np.float32)
    tokens: list[NDArray[np.integer]] = [np.empty(0, np.int32)] * len(texts)
    for start in range(0, len(texts), TOKENIZED_TOGETHER):
        part = list(texts[start : start + TOKENIZED_TOGETHER])
        for batch in predict_loader(part, tokenizer, limit, plan.sampler()):
            places = batch["indices"].numpy() + start
            rows[places] = _encode(plan, encoder, batch)
            for place, ids, mask in zip(places, batch["input_ids"], batch["attention_mask"].bool(), strict=True):
                tokens[place] = ids[mask].numpy()
    is_cut = np.array([len(ids) == limit for ids in tokens], bool)
    return rows, token_counts(tokens, vocabulary_size), is_cut


def _weights_mib(encoder) -> float:
    files = Path(encoder.folder()).glob("model*.safetensors")
    return sum(file.stat().st_size for file in files) / 2**20
