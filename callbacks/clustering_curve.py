"""Scores against the labels during training: looked at, never used."""

from __future__ import annotations

from typing import Annotated, Any

import lightning.pytorch as pl
import numpy as np
import torch
from lightning.pytorch import Callback
from torch import Tensor

from clustering.scores import clustering_scores, negative_similarity, within_label_cosine
from storage.run_store import RunFolder


class ClusteringCurve(Callback):
    """Logs figures of an epoch's clusters, by the labels; `oracle` is the best epoch.

    `cluster/acc` and `cluster/nmi`; `cluster/within_label_cosine` of the module's `representations`, or where it has
    none of its embeddings; `cluster/ns` where there is an attention between texts (AECL, Figs. 5 and 6).

    Without labels it does nothing. Works with a module that has `all_outputs` and a data module that has a corpus.

    Args:
        run, protocol: not used; all callbacks are built alike.
        interval: epochs between two looks.
    """

    serves = "clustering"  # which methods it is for

    def __init__(self, run: RunFolder, protocol: Any, interval: Annotated[int, ">= 1"] = 1) -> None:
        self.interval = interval
        self.best: dict[str, float] = {}

    def state_dict(self) -> dict[str, float]:
        return dict(self.best)

    def load_state_dict(self, state_dict: dict[str, float]) -> None:
        self.best = dict(state_dict)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        corpus, epoch = trainer.datamodule.corpus, trainer.current_epoch  # type: ignore[attr-defined]  # not in its types
        if not corpus.is_labelled or (epoch + 1) % self.interval:
            return
        scores = _scores(pl_module, corpus.table("train")["label"].to_numpy())
        names = ("acc", "nmi", "within_label_cosine", "ns")
        pl_module.log_dict({f"cluster/{name}": scores[name] for name in names if name in scores})
        if scores["acc"] > self.best.get("acc", -1.0):
            self.best = {"acc": scores["acc"], "nmi": scores["nmi"], "epoch": epoch}

    def oracle(self) -> dict[str, float]:
        """ACC and NMI of the epoch whose ACC was best: what nobody without labels could choose."""
        return {f"oracle/{name}": value for name, value in self.best.items()}


def _scores(module: Any, labels: np.ndarray) -> dict[str, float]:
    """Figures of all texts, from one pass of a clustering method."""
    negative, sizes = [], []

    def look(batch: dict[str, Tensor]) -> Tensor:
        output = module(batch)
        if "similarity" in output:
            batch_labels = labels[batch["indices"].cpu().numpy()]
            negative.append(negative_similarity(output["similarity"].float().cpu().numpy(), batch_labels))
            sizes.append(len(batch_labels))
        return torch.cat([output["logits"], output.get("representations", output["embeddings"])], dim=1)

    outputs = module.all_outputs(look)
    logits, vectors = outputs[:, : module.num_clusters], outputs[:, module.num_clusters :]
    scores = clustering_scores(labels, logits.argmax(dim=1).numpy())
    scores["within_label_cosine"] = within_label_cosine(vectors.numpy(), labels)
    return scores | ({"ns": float(np.average(negative, weights=sizes))} if negative else {})
