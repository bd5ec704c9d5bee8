"""Scores against the labels during training: looked at, never used."""

from __future__ import annotations

from typing import Annotated, Any

import lightning.pytorch as pl
from lightning.pytorch import Callback

from clustering.scores import clustering_scores
from reporting.run_store import RunFolder


class ClusteringCurve(Callback):
    """Logs `cluster/acc` and `cluster/nmi` of the clusters after an epoch; `oracle` is the best epoch, by the labels.

    Without labels it does nothing. Works with a module that has `whole_set` and a data module that has a corpus.

    Args:
        run, protocol: not used; all callbacks are built alike.
        interval: epochs between two looks.
    """

    def __init__(self, run: RunFolder, protocol: Any, interval: Annotated[int, ">= 1"] = 1) -> None:
        self.interval = interval
        self.best: dict[str, float] = {}

    def state_dict(self) -> dict[str, float]:
        return dict(self.best)

    def load_state_dict(self, state_dict: dict[str, float]) -> None:
        self.best = dict(state_dict)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        corpus, epoch = trainer.datamodule.corpus, trainer.current_epoch
        if not corpus.label_names or (epoch + 1) % self.interval:
            return
        clusters = pl_module.whole_set(lambda batch: pl_module(batch)["logits"]).argmax(dim=1)
        scores = clustering_scores(corpus.table("train")["label"].to_numpy(), clusters.numpy())
        pl_module.log_dict({f"cluster/{name}": scores[name] for name in ("acc", "nmi")})
        if scores["acc"] > self.best.get("acc", -1.0):
            self.best = {"acc": scores["acc"], "nmi": scores["nmi"], "epoch": epoch}

    def oracle(self) -> dict[str, float]:
        """ACC and NMI of the epoch whose ACC was best: what nobody without labels could choose."""
        return {f"oracle/{name}": value for name, value in self.best.items()}
