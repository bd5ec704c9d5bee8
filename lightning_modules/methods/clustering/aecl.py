"""AECL: short-text clustering by attention between the texts of a batch, in three stages."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from lightning_modules.base import Batch
from lightning_modules.heads.projection import ClusterHead
from lightning_modules.methods.clustering.pseudo_labels import PseudoLabelModule
from lightning_modules.methods.clustering.sample_attention import BareAttention, EncoderLayerAttention
from losses import AECLLoss
from losses.aecl import Stage

LARGE, SMALL = 15_000, 5_000  # texts; AECL calls 20,000 large, 8,000 to 12,340 medium, 2,472 small
MANY = 50  # clusters; AECL calls 4 to 20 few, 89 and 152 many


class AECLModule(PseudoLabelModule):
    """`method=aecl`: contrast guided by attention, then k-means labels, then all losses: see `losses.AECLLoss`.

    A text's cluster depends on the other texts of its batch, through the attention. Stage 2 begins with k-means on the
    encoder's embeddings of all texts; its labels stay.

    Args:
        stage1_epochs: E1. `by_size`: 2, 10 or 20 for a large, medium or small set, as the paper's text has it;
            `by_size_reversed`: 20, 10 or 2, nearer to what its figures vary.
        stage2_epochs: E2. `by_clusters`: 1 for few clusters, 6 for many. A shortened schedule shortens both alike.
        unit_length: whether k-means sees the embeddings at unit length (published code: as they are).
        attention: `encoder_layer` (published code, and the paper's number of parameters), `bare` (eq. 1 to 3), or
            `none`: h = z, and a text attends to itself alone.
        projection_size: D2, of z and h.
        embedding_rms: root mean square that an embedding's coordinates are scaled to before the projector; null leaves
            them as they are. The smaller it is, the more evenly the attention begins.
        head_dropout: before the hidden layers of the clustering network.

    The remaining arguments are those of `ClusteringModule`; `num_views` is 2.

    Raises:
        ValueError: stages that leave no epoch to the third.
    """

    losses = (AECLLoss,)
    depends_on_companions = True

    def __init__(
        self,
        *args,
        stage1_epochs: Annotated[int, ">= 0"] | Literal["by_size", "by_size_reversed"] = "by_size",
        stage2_epochs: Annotated[int, ">= 0"] | Literal["by_clusters"] = "by_clusters",
        unit_length: Annotated[bool, "with stage2_epochs>0"] = True,
        attention: Literal["encoder_layer", "bare", "none"] = "encoder_layer",
        projection_size: Annotated[int, ">= 1"] = 128,
        embedding_rms: Annotated[float, "> 0"] | None = 1.0,
        head_dropout: Annotated[float, ">= 0", "< 1"] = 0.5,
        num_views: Literal[2] = 2,
        **kwargs,
    ) -> None:
        super().__init__(*args, **kwargs | {"num_views": num_views})
        hidden, self.embedding_rms = self.encoder.hidden_size, embedding_rms
        self.projector = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, projection_size))
        attentions = {"encoder_layer": EncoderLayerAttention, "bare": BareAttention}
        self.attention = attentions[attention](projection_size) if attention != "none" else None
        self.head = ClusterHead(projection_size, hidden, self.num_clusters, head_dropout)
        self.depends_on_companions = self.attention is not None
        self.stage1_epochs, self.stage2_epochs, self.unit_length = stage1_epochs, stage2_epochs, unit_length

    def setup(self, stage: str) -> None:
        super().setup(stage)
        if stage != "fit":
            return
        first, second = self.stage_lengths(len(self.datamodule.indices["train"]))
        if first + second >= self.max_epochs:
            raise ValueError(
                f"trainer.max_epochs: found {self.max_epochs}, allowed: > {first + second}, "
                f"the epochs of the first two stages ({first} and {second})"
            )
        self.third_stage, self.second_stage = first + second, first

    def stage_lengths(self, number: int) -> tuple[int, int]:
        """E1 and E2 for this many texts, an epoch at least where there is such a stage."""
        first, second = self.stage1_epochs, self.stage2_epochs
        if isinstance(first, str):
            lengths = (2, 10, 20) if first == "by_size" else (20, 10, 2)
            first = lengths[(number < LARGE) + (number < SMALL)]
        if isinstance(second, str):
            second = 6 if self.num_clusters > MANY else 1
        first, second = (max(round(self.schedule_share * epochs), min(epochs, 1)) for epochs in (first, second))
        return first, second

    def stage_of(self, epoch: int) -> Stage:
        """The stage that an epoch belongs to."""
        if epoch < self.second_stage:
            return 1
        return 2 if epoch < self.third_stage else 3

    def start_epoch(self) -> None:
        if self.current_epoch == self.second_stage < self.third_stage:
            self.pseudo_labels, _ = self.kmeans_of(self.all_outputs(), self.unit_length)

    def project(self, embeddings: Tensor) -> Tensor:
        """z (B, D2) of embeddings (B, D)."""
        if self.embedding_rms is not None:
            length = self.embedding_rms * embeddings.shape[1] ** 0.5
            embeddings = length * functional.normalize(embeddings, dim=1)
        return self.projector(embeddings)

    def consistent(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """h (B, D2) and the attention S (B, B) of one view's z (B, D2)."""
        if self.attention is None:
            return z, torch.eye(len(z), dtype=z.dtype, device=z.device)
        return self.attention(z)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        embeddings = self.embed(batch)
        h, similarity = self.consistent(self.project(embeddings))
        output = {"embeddings": embeddings, "representations": h.float(), "logits": self.head(h).float()}
        return output if self.attention is None else output | {"similarity": similarity.float()}

    def training_losses(self, batch: Batch) -> dict[str, Tensor]:
        stage = self.stage_of(self.current_epoch)
        z = self.project(self.embed(batch)).unflatten(0, (2, -1))
        h, similarity = (torch.stack(views) for views in zip(*map(self.consistent, z), strict=True))
        logits = torch.stack([self.head(rows) for rows in h])
        pseudo_labels = self.labels_of(batch) if stage == 2 else None
        parts = self.loss(stage, z, h, similarity, logits, pseudo_labels)
        return parts | {"stage": parts["loss"].new_tensor(float(stage))}
