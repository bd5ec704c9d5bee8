"""What every encoder of images shares: where its weights come from, and what becomes of pixels."""

from __future__ import annotations

import hashlib
import os
import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from torch import Tensor, nn

CLASSIFIER = ("fc.", "linear.")  # what published checkpoints hold besides the encoder
WRAPPER = "module."  # before each name, where a model was saved on several GPUs


class ImageEncoder(nn.Module):
    """A network over normalised pixels.

    Args:
        network: pixels (B, 3, H, W) float32 -> embeddings (B, hidden_size); its `feature_map` gives what they are the
            mean of.
        hidden_size: of the embeddings.
        mean, std: of R, G and B in [0, 1], that pixels are normalised by.
        frozen: whether it is never trained, and stays in eval mode.
        least_size: pixels of the smallest side that leaves the network one of its own.

    Raises:
        ValueError: smaller images, with the first batch.
    """

    top_layers = None
    mean: Tensor
    std: Tensor

    def __init__(
        self,
        network: nn.Module,
        hidden_size: int,
        mean: Sequence[float],
        std: Sequence[float],
        frozen: bool,
        least_size: int = 1,
    ) -> None:
        super().__init__()
        self.least_size = least_size
        self.network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.hidden_size, self.frozen = hidden_size, frozen
        self.register_buffer("mean", torch.tensor(mean)[:, None, None], persistent=False)
        self.register_buffer("std", torch.tensor(std)[:, None, None], persistent=False)
        if frozen:
            self.requires_grad_(False)

    def train(self, mode: bool = True) -> ImageEncoder:
        """What is frozen stays in eval mode, so that it gives the same at every epoch."""
        return super().train(mode and not self.frozen)

    def forward(self, pixels: Tensor) -> Tensor:
        """Pixels (B, 3, H, W) in [0, 255] -> embeddings (B, hidden_size) in float32."""
        return self.network(self._normalised(pixels)).float()

    def feature_map(self, pixels: Tensor) -> Tensor:
        """Pixels (B, 3, H, W) in [0, 255] -> (B, hidden_size, h, w) in float32, whose mean is the embedding."""
        return self.network.feature_map(self._normalised(pixels)).float()

    def _normalised(self, pixels: Tensor) -> Tensor:
        if (side := min(pixels.shape[-2:])) < self.least_size:
            raise ValueError(f"encoder: found images of {side} pixels; allowed: {self.least_size} or more")
        pixels = pixels.contiguous(memory_format=torch.channels_last)  # in which convolutions are fastest
        return (pixels.float() / 255 - self.mean) / self.std


class ImageEncoderSource:
    """What an encoder of images is made from; a subclass builds the network.

    Args:
        name: in tables.
        path: checkpoint in PyTorch's or safetensors' format, with the names of torchvision; null draws the weights.
        train: `full`, or `frozen` with a checkpoint (`engine.composition` sees to it).
        mean: of R, G and B in [0, 1], that pixels are normalised by.
        std: likewise.
    """

    kinds = ("image",)
    has_weights = False  # without `path`
    reads_whole_batches = True  # batch normalisation: an embedding depends on the batch beside it
    pooling = "mean"
    hidden_size: int
    least_size: int  # pixels: the stride of the whole network

    def __init__(
        self,
        name: str,
        path: str | None,
        train: Literal["full", "frozen"],
        mean: tuple[float, float, float],
        std: tuple[float, float, float],
    ) -> None:
        self.name, self.path, self.training, self.mean, self.std = name, path, train, mean, std

    def simplest(self, dataset: Any) -> PixelEncoder:
        """What the logistic regression beside a run reads: the pixels."""
        return PixelEncoder(size=dataset.size)

    def network(self) -> nn.Module:
        """The network, with weights drawn from torch's own random numbers."""
        raise NotImplementedError

    def weights_hash(self) -> str:
        """sha256 of the checkpoint, and of nothing where there is none: all is trained. Raises ValueError: no file."""
        if self.path is None:
            return hashlib.sha256(b"").hexdigest()
        with self._file().open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def load(self, seed: int = 0) -> ImageEncoder:
        """The encoder in training mode unless frozen, drawn from `seed` or with the weights of the checkpoint."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = self.network()
        if self.path is not None:
            self._fill(network, _state(self._file()))
        frozen = self.training == "frozen"
        return ImageEncoder(network, self.hidden_size, self.mean, self.std, frozen, self.least_size).train()

    def _file(self) -> Path:
        if self.path is None or not Path(os.path.expanduser(self.path)).is_file():
            raise ValueError(f"encoder.path: no file {self.path!r}; allowed: a checkpoint, .pth or .safetensors")
        return Path(os.path.expanduser(self.path))

    def _fill(self, network: nn.Module, state: Mapping[str, Tensor]) -> None:
        own = network.state_dict()
        needed = {name for name in own if not name.endswith("num_batches_tracked")}
        state = {name.removeprefix(WRAPPER): value for name, value in state.items()}
        problem = None
        if missing := sorted(needed - state.keys()):
            problem = f"no {missing[0]}" + (f" and {len(missing) - 1} more" if len(missing) > 1 else "")
        elif odd := sorted(name for name in state.keys() - own.keys() if not name.startswith(CLASSIFIER)):
            problem = f"{odd[0]}, which encoder={self.name} has not"
        elif odd := sorted(name for name in needed if state[name].shape != own[name].shape):
            problem = f"{odd[0]} of shape {tuple(state[odd[0]].shape)}, not {tuple(own[odd[0]].shape)}"
        if problem:
            raise ValueError(f"encoder.path={self.path}: found {problem}; allowed: weights of encoder={self.name}")
        network.load_state_dict({name: state.get(name, own[name]) for name in own})


class PixelEncoder:
    """`encoder=pixels`: all pixels of an image as its embedding, in [0, 1]; nothing is learned.

    Args:
        name: in tables.
        size: side of the images.
        train: there is nothing to train.
    """

    kinds = ("image",)
    needs_none = True  # of weights
    pooling = "none"

    def __init__(
        self, name: str = "pixels", size: Annotated[int, ">= 1"] = 8, train: Literal["frozen"] = "frozen"
    ) -> None:
        self.name, self.size = name, size

    def weights_hash(self) -> str:
        """There are no weights."""
        return hashlib.sha256(b"").hexdigest()

    def load(self, seed: int = 0) -> ImageEncoder:
        """The encoder; `seed` decides nothing."""
        return ImageEncoder(_Flat(self.size), 3 * self.size**2, (0.0,) * 3, (1.0,) * 3, frozen=True).eval()


class _Flat(nn.Flatten):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, input: Tensor) -> Tensor:
        if input.shape[-1] != self.size:
            raise ValueError(f"encoder.size: found {self.size}, allowed with these images: {input.shape[-1]}")
        return super().forward(input)


def _state(file: Path) -> Mapping[str, Tensor]:
    """The tensors of a checkpoint by name; nothing in it is executed."""
    try:
        if file.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(file)
        content: Any = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # both libraries raise many types
        reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
        kind = "pickled objects that are no tensors" if isinstance(error, pickle.UnpicklingError) else reason
        raise ValueError(f"encoder.path={file}: cannot be read as a checkpoint ({kind})") from error
    content = content.get("state_dict", content) if isinstance(content, Mapping) else content
    if not isinstance(content, Mapping) or not all(isinstance(value, Tensor) for value in content.values()):
        raise ValueError(f"encoder.path={file}: found no tensors by name; allowed: a state dict, .pth or .safetensors")
    return content
