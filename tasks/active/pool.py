"""The texts that active learning may ask for, and what a model says of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch

from clustering.kmeans import unit_rows
from datamodules.corpus import Corpus
from datamodules.labels import meant_separator, without_label
from datamodules.texts.datamodule import predict_loader
from engine.plan import Plan
from lightning_modules.base import ClassifierModule
from lightning_modules.heads.discriminant import best_discriminant
from tasks.active.people import SEPARATOR, first_of_equal, not_held_out


class Pool:
    """The training texts that may be asked for, each once: of equal texts the first stands for all.

    Attributes:
        rows: of the train table, the pool.
        unlabelled: further rows of a thinned table, texts without a label: a label budget left them over. None where
            the rounds draw labels by the budget as the pool does.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.device = plan.device
        self.corpus = corpus = plan.corpus()
        self.rows, self.unlabelled = _pool_rows(plan, corpus)
        self.is_whole = len(self.rows) == len(corpus.table("train"))
        table = corpus.table("train").take(self.rows)
        self.texts: list[str] = table.column("text").to_pylist()
        self.has_several = corpus.multilabel  # classes a text
        self.separator = meant_separator(plan.plain["dataset"].get("label_separator") or SEPARATOR)
        self.labels: list[Any] = table.column("label").to_pylist()  # a class, or all classes of a text
        self.label_names = list(corpus.label_names)
        distinct = first_of_equal(self.texts)
        if without_label(corpus.table("train")).any():  # all its rows are the pool, and people label it
            distinct = not_held_out(corpus, distinct)
        self.distinct = np.array(distinct, dtype=np.int64)

    @cached_property
    def pretrained_embeddings(self) -> np.ndarray:
        """Of the encoder before any training, (N, D)."""
        encoder = self.plan.encoder.load().eval().to(self.device)
        return self._predict(lambda batch: {"e": encoder(batch["input_ids"], batch["attention_mask"])})["e"]

    @cached_property
    def guesses(self) -> np.ndarray:
        """Classes (N,) by EM from their names over the pretrained embeddings, as `method=prototypes` without a label.

        Raises:
            ValueError: the classes have no names that tell them apart.
        """
        names = self.plan.class_names(self.label_names)
        if names is None:
            raise ValueError("active.cold_start: found names, but no names of classes to read; allowed: null, or "
                             "dataset.class_descriptions=FILE beside it")  # fmt: skip
        embeddings = torch.from_numpy(unit_rows(self.pretrained_embeddings)).float()
        with torch.no_grad():
            anchors = names(self.plan.encoder.load().eval())
        no_labels = torch.full((len(embeddings),), -1)
        return best_discriminant(embeddings, no_labels, anchors, len(anchors)).scores(embeddings).argmax(1).numpy()

    def model_outputs(
        self,
        module: ClassifierModule,
        needed: frozenset[str] = frozenset(),
        passes: int = 0,
        seed: int = 0,
        places: Sequence[int] | None = None,
    ) -> dict[str, Any]:
        """Probabilities, embeddings and, where needed, probabilities with dropout on, of the whole pool; of `places`
        alone the rows of all others are zeros."""
        module.to(self.device)

        def forward(batch: dict[str, Any]) -> dict[str, torch.Tensor]:
            outputs = module(batch)
            logits = outputs["logits"].double()
            probabilities = logits.sigmoid() if self.has_several else logits.softmax(1)
            return {"embeddings": outputs["embeddings"], "probabilities": probabilities}

        outputs: dict[str, Any] = self._predict(forward, places)
        if "mc_probabilities" in needed:
            torch.manual_seed(seed)
            module.train()
            drawn = np.stack([self._predict(forward)["probabilities"] for _ in range(passes)])
            module.eval()
            if passes > 1 and not np.ptp(drawn, axis=0).any():
                raise ValueError(
                    f"active: found {passes} equal passes, for method={module.name} has no dropout here; allowed: a "
                    "strategy that asks for none, as active=entropy"
                )
            outputs["mc_probabilities"] = drawn
        return outputs

    @torch.inference_mode()
    def _predict(
        self, forward: Callable[[dict[str, Any]], dict[str, torch.Tensor]], places: Sequence[int] | None = None
    ) -> dict[str, np.ndarray]:
        """What `forward` returns for batches of the pool, (N, width), in row order."""
        plan = self.plan
        parts: dict[str, np.ndarray] = {}
        wanted = np.arange(len(self.texts)) if places is None else np.asarray(places, dtype=np.int64)
        texts = [self.texts[place] for place in wanted]
        loader = predict_loader(texts, plan.encoder.tokenizer(), plan.dataset.max_length, plan.sampler())
        for batch in loader:
            rows_of = wanted[batch["indices"].numpy()]
            moved = {k: v.to(self.device) if isinstance(v, torch.Tensor) else v for k, v in batch.items()}
            for name, output in forward(moved).items():
                rows = output.cpu().numpy()
                if name not in parts:
                    parts[name] = np.zeros((len(self.texts), rows.shape[1]), dtype=rows.dtype)
                parts[name][rows_of] = rows
        return parts


def _pool_rows(plan: Plan, corpus: Corpus) -> tuple[np.ndarray, np.ndarray | None]:
    """Rows of the train table that are the pool: all where some have no label, else those that `imbalance` leaves; and
    `Pool.unlabelled`."""
    labels = corpus.table("train").column("label")
    if unlabelled := int(without_label(corpus.table("train")).sum()):
        if plan.plain["active"]["oracle"] == "labels":
            raise ValueError(
                f"active.oracle: found labels, but {unlabelled} of {len(labels)} texts of the pool have none; "
                f"allowed: file, prompt, browser"
            )
        return np.arange(len(labels)), None
    datamodule = plan.datamodule(corpus, num_views=1)
    parts = ["train", "val"] if plan.plain["protocol"]["name"] == "few_shot" else ["train"]
    others = datamodule.indices.get("unlabelled", np.arange(0)) if datamodule.thins_before_budget else None
    return np.sort(np.concatenate([datamodule.indices[part] for part in parts])), others
