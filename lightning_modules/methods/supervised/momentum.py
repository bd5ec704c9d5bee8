"""What methods with a queue share: keys by a slowly moving copy of the encoder, and the last of them kept."""

from __future__ import annotations

import copy
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor, nn

from lightning_modules.base import Batch, ClassifierModule, inputs_of
from lightning_modules.heads.projection import ProjectionHead
from losses import gather


def view_of(batch: Batch, view: int) -> Batch:
    """One view of a view-major batch: its rows of all that the encoder reads."""
    rows = slice(view * len(batch["labels"]), (view + 1) * len(batch["labels"]))
    return {key: inputs[rows] for key, inputs in inputs_of(batch).items()}


class QueueModule(ClassifierModule):
    """A projection, a queue of keys with labels, and where `momentum` is given a momentum encoder (He et al., CVPR'20).

    Queue, position and momentum encoder are part of a checkpoint. Under several processes each takes in the keys of
    all, in the order of ranks, so that the queue is the same everywhere. Places not yet filled take no part (published
    codes start with random keys).

    Args:
        queue_size: keys kept, the oldest leave first; 0 keeps none.
        momentum: m of key <- m key + (1 - m) query, at the beginning of each step; null has no momentum encoder.
        projection_size: output of the projection, whose rows are L2-normalised.

    The remaining arguments are those of `ClassifierModule`.
    """

    state_of_rows: ClassVar[tuple[str, ...]] = ("queue", "queue_labels", "queue_position")
    queue: Tensor
    queue_labels: Tensor
    queue_position: Tensor

    def __init__(
        self,
        *args,
        queue_size: Annotated[int, ">= 0", "<= 1048576"] = 1024,
        momentum: Annotated[float, ">= 0", "< 1"] | None = 0.999,
        projection_size: Annotated[int, ">= 1", "<= 65536"] = 128,
        **kwargs,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.project = ProjectionHead(self.encoder.hidden_size, projection_size)
        self.momentum = momentum
        self.key_modules = nn.ModuleDict()
        if momentum is not None:
            # a frozen encoder is its own momentum copy
            moving = ("project",) if self.encoder.frozen else ("encoder", "project")
            memory: Any = getattr(getattr(self.encoder, "top_layers", None), "remembered", None)
            shared = {id(memory): memory}  # what lies below layers that train is the same for queries and keys
            self.key_modules.update({name: copy.deepcopy(getattr(self, name), shared) for name in moving})
            self.key_modules.requires_grad_(False)
        self.register_buffer("queue", torch.zeros(queue_size, projection_size))
        self.register_buffer("queue_labels", torch.full((queue_size,), -1))
        self.register_buffer("queue_position", torch.zeros((), dtype=torch.long))

    @torch.no_grad()
    def move_key_modules(self) -> None:
        """One step of the moving average, with the first batch of an optimizer step."""
        if self.micro_batch or self.momentum is None:
            return
        for name, module in self.key_modules.items():
            for key, query in zip(module.parameters(), getattr(self, name).parameters(), strict=True):
                key.lerp_(query, 1 - self.momentum)

    @torch.no_grad()
    def keys(self, view: Batch) -> Tensor:
        """Keys (B, projection_size) of one view by the momentum encoder, without gradient."""
        encoder = self.key_modules["encoder"] if "encoder" in self.key_modules else self.encoder
        if "features" in view:
            embeddings = view["features"].float()
        else:
            embeddings = self.encode(encoder, *inputs_of(view).values())
        return self.key_modules["project"](embeddings)

    def queued(self) -> tuple[Tensor, Tensor]:
        """Keys (Q, projection_size) and labels (Q,) of the filled places, copied."""
        filled = self.queue_labels >= 0
        return self.queue[filled], self.queue_labels[filled]

    @torch.no_grad()
    def enqueue(self, keys: Tensor, labels: Tensor) -> None:
        """Take in keys (B, projection_size) of the global batch over the oldest; of more than the queue, the last."""
        size = len(self.queue)
        if not size:
            return
        keys, labels = keys[-size:], labels[-size:]
        places = (self.queue_position + torch.arange(len(keys), device=keys.device)) % size
        self.queue[places], self.queue_labels[places] = keys.to(self.queue), labels
        self.queue_position.copy_((self.queue_position + len(keys)) % size)


def gathered(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Each of the tensors over all processes."""
    return tuple(gather(tensor) for tensor in tensors)
