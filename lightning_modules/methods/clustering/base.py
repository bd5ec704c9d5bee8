"""What methods that learn clusters share: a look at the whole set between epochs, and the outputs that are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

import torch
from torch import Tensor, nn

from lightning_modules.base import Batch, EncoderModule
from lightning_modules.encoders.transformer import TextEncoder

LIKE_LENGTH = 100  # texts encoded at a time, of one length or nearly so


class ClusteringModule(EncoderModule):
    """Base of all methods that learn clusters from unlabelled texts. `task=cluster` trains it by one `fit`.

    A method overrides `forward` and `training_losses`, and `start_epoch` where a stage begins with a look at all texts
    (k-means on embeddings, pseudo-labels, targets). What it finds there it keeps in buffers, so that a resumed run has
    it; texts are told apart by `batch["indices"]`, their rows in the set. Labels are never there (they are -1).

    Args:
        num_clusters: K; the task has resolved `null` and `auto` to a number.
        encoder, loss, optimizer, scheduler, name, seed, num_views, head_lr: see `EncoderModule`.

    `forward` returns for a batch of one view `logits` (B, K), whose argmax is the cluster, and `embeddings` (B, D);
    a method that learns others from them adds `representations` (B, D2), which figures show; one with an attention
    between texts adds `similarity` (B, B), its rows summing to 1, for NS and PS.
    """

    serves = "clustering"
    kinds = ("text",)
    protocols = ("transductive",)
    unused_groups = ("imbalance", "active", "retrieval", "head", "start_from")
    multilabel = False
    depends_on_companions = False  # whether the outputs of a text depend on the other texts of its batch
    schedule_share = 1.0  # of the epochs that stages are stated for, below 1 where `trainer.max_epochs` shortened them

    def __init__(
        self,
        encoder: TextEncoder,
        loss: nn.Module,
        optimizer: Callable,
        scheduler: Callable,
        name: str,
        num_clusters: Annotated[int, ">= 2"] | Literal["auto"] | None = None,
        seed: int = 0,
        num_views: Annotated[int, ">= 1", "<= 64"] = 2,
        head_lr: Annotated[float, "> 0"] = 5e-4,
    ) -> None:
        super().__init__(encoder, loss, optimizer, scheduler, name, seed, num_views, head_lr)
        if not isinstance(num_clusters, int):
            raise ValueError(f"method.num_clusters: found {num_clusters!r}, allowed here: a whole number")
        self.num_clusters = num_clusters

    def embed(self, batch: Batch) -> Tensor:
        """As in `EncoderModule`; on the CPU, texts of like length are encoded together, so that few pads are.

        Batches of clustering are drawn without regard to length, for the texts of a batch count for each other.
        """
        if "features" in batch or batch["attention_mask"].device.type != "cpu":
            return super().embed(batch)
        tokens, mask = batch["input_ids"], batch["attention_mask"]
        order = mask.sum(1).argsort(descending=True, stable=True)
        parts = []
        for rows in order.split(LIKE_LENGTH):
            longest = int(mask[rows[0]].sum())
            parts.append(self.encode(self.encoder, tokens[rows, :longest], mask[rows, :longest]))
        return torch.cat(parts)[order.argsort()]

    def refuse_to_end_by(self, epoch: int, key: str, stage: str) -> None:
        """Raises ValueError: a fit with no epoch after the first `epoch` ones, which `key` sets."""
        if stage == "fit" and self.max_epochs <= epoch:
            raise ValueError(f"trainer.max_epochs: found {self.max_epochs}, allowed: > {epoch}, {key}")

    @property
    def datamodule(self) -> Any:
        """The data of the run."""
        return self.trainer.datamodule  # type: ignore[attr-defined]  # not in Lightning's types

    def start_epoch(self) -> None:
        """Called before the first batch of each epoch (`self.current_epoch`), also of the one that a run resumes at."""

    def on_train_epoch_start(self) -> None:
        super().on_train_epoch_start()
        self.start_epoch()
        self.train()

    @torch.no_grad()
    def all_outputs(self, function: Callable[[Batch], Tensor] | None = None) -> Tensor:
        """`function(batch)` (B, …) of every text in eval mode, in row order: (N, …), float32, on the CPU.

        By default the embeddings of the encoder, (N, D). Batches are those of evaluation, in their fixed order.
        """
        function = function or self.embed
        was_training = self.training
        self.eval()
        parts, rows = [], []
        for batch in self.datamodule.val_dataloader():
            batch = self.transfer_batch_to_device(batch, self.device, 0)
            with self.trainer.precision_plugin.forward_context():
                parts.append(function(batch).float().cpu())
            rows.append(batch["indices"].cpu())
        self.train(was_training)
        return torch.cat(parts)[torch.cat(rows).argsort()]
