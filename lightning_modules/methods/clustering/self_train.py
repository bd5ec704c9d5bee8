"""Self-Train: an autoencoder over averaged word vectors, then clustering by Student's t (Hadifar et al., 2019)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from lightning_modules.base import Batch
from lightning_modules.methods.clustering.pseudo_labels import PseudoLabelModule
from losses import StudentTClusteringLoss, sharpened_targets, student_t_log_assignments

SIF = 1e-3  # a of the weight a / (a + p(word)): Arora et al. (ICLR 2017)


class SelfTrainModule(PseudoLabelModule):
    """`method=self_train`: reconstruction for some epochs, then KL(p || q) on the codes, p refreshed between epochs.

    The texts' vectors are of unit length and fixed; the encoder is not trained. Centres start from k-means on the codes
    and are trained; a text's cluster is the arg max of its Student-t assignment.

    Args:
        vectors: `sif`: the encoder's input embeddings of word pieces (published: word2vec), weighed by smooth inverse
            frequency, averaged, and freed of their first principal direction over the set; `sentence`: the encoder's
            embeddings.
        pretrain_epochs: of the autoencoder, by the squared error.
        refresh_interval: epochs between new targets p, which are made of all texts.
        layer_sizes: of the autoencoder's first half; the last one is that of the code.

    The remaining arguments are those of `ClusteringModule`; `num_views` is 1.

    Raises:
        ValueError: `sif` with a frozen encoder, which hands out embeddings alone; a run
            that ends before the clustering begins.
    """

    losses = (StudentTClusteringLoss,)
    word_weights: Tensor
    common_direction: Tensor

    def __init__(
        self,
        *args,
        vectors: Literal["sif", "sentence"] = "sif",
        pretrain_epochs: Annotated[int, ">= 1"] = 15,
        refresh_interval: Annotated[int, ">= 1"] = 1,
        layer_sizes: Sequence[Annotated[int, ">= 1"]] = (500, 500, 2000, 20),
        num_views: Literal[1] = 1,
        head_lr: Annotated[float, "> 0"] = 1e-3,
        **kwargs,
    ) -> None:
        super().__init__(*args, **kwargs | {"num_views": num_views, "head_lr": head_lr})
        if vectors == "sif" and self.encoder.frozen:
            raise ValueError("encoder.train: found frozen, allowed with method.vectors=sif: full (it is not trained)")
        self.encoder.requires_grad_(False)
        words = self.encoder.token_embeddings()
        self.register_buffer("word_weights", torch.ones(len(words)))
        self.register_buffer("common_direction", torch.zeros(words.shape[1]))
        sizes = [words.shape[1] if vectors == "sif" else self.encoder.hidden_size, *layer_sizes]
        self.encode_layers, self.decode_layers = _layers(sizes), _layers(sizes[::-1])
        self.centres = nn.Parameter(torch.zeros(self.num_clusters, sizes[-1]))
        self.vectors = vectors
        self.pretrain_epochs, self.refresh_interval = pretrain_epochs, refresh_interval

    def setup(self, stage: str) -> None:
        super().setup(stage)
        self.refuse_to_end_by(self.pretrain_epochs, "method.pretrain_epochs", stage)

    def start_epoch(self) -> None:
        if self.current_epoch == 0 and self.vectors == "sif":
            self._weigh_words()
        clustering_epoch = self.current_epoch - self.pretrain_epochs
        if clustering_epoch >= 0 and clustering_epoch % self.refresh_interval == 0:
            codes = self.all_outputs(lambda batch: self.encode_layers(self.vectors_of(batch)))
            if clustering_epoch == 0:
                with torch.no_grad():
                    self.centres.copy_(self.kmeans_of(codes)[1])
            self.pseudo_labels = sharpened_targets(self._log_assignments(codes.to(self.device))).cpu()

    def _weigh_words(self) -> None:
        """Weights of word pieces by their frequency in the set, then the direction that all averages share."""
        counts = torch.zeros(len(self.word_weights))
        for batch in self.datamodule.val_dataloader():
            counts += torch.bincount(batch["input_ids"][batch["attention_mask"].bool()], minlength=len(counts))
        self.word_weights.copy_(SIF / (SIF + counts / counts.sum()))
        self.common_direction.zero_()
        averages = self.all_outputs(self._averages)
        _, directions = torch.linalg.eigh((averages.T @ averages).double())
        self.common_direction.copy_(directions[:, -1])

    def _averages(self, batch: Batch) -> Tensor:
        weights = self.word_weights[batch["input_ids"]] * batch["attention_mask"]
        words = functional.embedding(batch["input_ids"], self.encoder.token_embeddings().float())
        return (weights[..., None] * words).sum(1) / batch["attention_mask"].sum(1, keepdim=True).clamp_min(1)

    @torch.no_grad()
    def vectors_of(self, batch: Batch) -> Tensor:
        """The fixed vectors of a batch's texts, (B, D) of unit length."""
        self.encoder.eval()  # no dropout: the vectors are fixed
        if self.vectors == "sentence":
            return functional.normalize(self.embed(batch), dim=1)
        averages = self._averages(batch)
        averages = averages - (averages @ self.common_direction)[:, None] * self.common_direction
        return functional.normalize(averages, dim=1)

    def _log_assignments(self, codes: Tensor) -> Tensor:
        return student_t_log_assignments(codes, self.centres, self.loss.alpha)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        codes = self.encode_layers(self.vectors_of(batch)).float()
        return {"embeddings": codes, "logits": self._log_assignments(codes)}

    def training_losses(self, batch: Batch) -> dict[str, Tensor]:
        vectors = self.vectors_of(batch)
        codes = self.encode_layers(vectors)
        if self.current_epoch < self.pretrain_epochs:
            loss = functional.mse_loss(self.decode_layers(codes).float(), vectors)
            return {"loss": loss, "stage": loss.new_tensor(1.0)}
        loss = self.loss(codes, self.centres, self.labels_of(batch))
        return {"loss": loss, "stage": loss.new_tensor(2.0)}


def _layers(sizes: Sequence[int]) -> nn.Sequential:
    """Linear layers of these sizes with ReLU between them."""
    layers: list[nn.Module] = []
    for inputs, outputs in zip(sizes, sizes[1:], strict=False):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])
