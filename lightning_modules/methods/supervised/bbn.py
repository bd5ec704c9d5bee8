"""Bilateral-branch network (Zhou et al., CVPR 2020)."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from lightning_modules.base import Batch, ClassifierModule
from lightning_modules.schedules import falling_share
from losses import BilateralLoss


class BBNModule(ClassifierModule):
    """Two branches, of rows as they come and of rows drawn against the class sizes, mixed by a share: `method=bbn`.

    Each branch is a residual block on the embedding and a linear classifier of its own; prediction is the sum of both.
    The share of the first branch falls from 1 to 0 as 1 - (t / T)^2. A train batch holds `sampler.batch_size` rows as
    that sampler draws them and as many drawn with P(c) proportional to 1 / n_c.

    Args:
        schedule_by: t counts `step`s, or `epoch`s as published; few epochs make few values of the share.
        num_views: 1.

    The remaining arguments are those of `ClassifierModule`.
    """

    losses = (BilateralLoss,)
    rows_beside = "reversed"

    def __init__(
        self, *args, schedule_by: Literal["step", "epoch"] = "step", num_views: Literal[1] = 1, **kwargs
    ) -> None:
        super().__init__(*args, **kwargs | {"num_views": num_views})
        self.schedule_by = schedule_by
        size, has_bias = self.encoder.hidden_size, self.classifier.bias is not None
        self.branch, self.other_branch = ResidualBlock(size), ResidualBlock(size)
        self.other_classifier = nn.Linear(size, self.num_classes, bias=has_bias)

    def share(self) -> float:
        """Of the first branch: 1 at the start of training, 0 at its end."""
        return falling_share(*self.progress(self.schedule_by))

    def branch_logits(self, embeddings: Tensor) -> Tensor:
        """Scores (B, C) of rows as they come."""
        return self.classifier(self.dropout(self.branch(embeddings))).float()

    def other_branch_logits(self, embeddings: Tensor) -> Tensor:
        """Scores (B, C) of rows drawn against the class sizes."""
        return self.other_classifier(self.dropout(self.other_branch(embeddings))).float()

    def logits(self, embeddings: Tensor) -> Tensor:
        """Both branches alike, (B, C)."""
        return self.branch_logits(embeddings) + self.other_branch_logits(embeddings)

    def training_losses(self, batch: Batch) -> dict[str, Tensor]:
        embeddings, other_embeddings = self.embed(batch).chunk(2)
        labels, other_labels = batch["labels"].chunk(2)
        share, logits = self.share(), self.branch_logits(embeddings)
        loss = self.loss(logits, labels, self.other_branch_logits(other_embeddings), other_labels, share)
        return {"loss": loss, "share": loss.new_tensor(share)}

    def prediction_head(self) -> dict[str, Tensor]:
        raise ValueError(f"task=export: method={self.name} has a block in each branch that is not linear")


class ResidualBlock(nn.Module):
    """z + W relu(V z), the identity at first: (N, D) -> (N, D)."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(size, size), nn.ReLU(), nn.Linear(size, size))
        for parameter in self.layers[2].parameters():
            nn.init.zeros_(parameter)

    def forward(self, embeddings: Tensor) -> Tensor:
        return embeddings + self.layers(embeddings)
