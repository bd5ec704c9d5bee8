"""Views of images: crops and flips by indexing, colours and learned policies by kornia.

kornia draws one sub-policy of AutoAugment, and one list of operations of RandAugment, for a whole batch; published
codes draw them for every image. Here images with the same draw go through kornia together.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, ClassVar, Literal

import torch
from torch import Tensor

Policy = Literal["shift", "crop_flip", "autoaugment_cutout", "randaugment", "simaugment", "randaugment_stack"]


class ImageAugmentation:
    """What a view of an image is drawn by; the first view, which is what classifies, is drawn too.

    Policies, each after a random crop:

    * ``shift``: nothing more; for images that a flip would make another class of.
    * ``crop_flip``: flipped or not (He et al., CVPR 2016, sec. 4.2).
    * ``autoaugment_cutout``: flipped, a sub-policy of AutoAugment for CIFAR-10 (Cubuk et al., CVPR 2019, Table 7), a
      square of half the side blackened (DeVries and Taylor, 2017), as PaCo's and ACL's first view on CIFAR.
    * ``randaugment``: 8 to 100 % of the area scaled to the whole, flipped, brightness, contrast and saturation changed
      by up to 40 %, two operations of RandAugment at magnitude 10 (Cubuk et al., 2020).
    * ``simaugment``: 20 to 100 % of the area scaled to the whole, flipped, colours changed in four of five (40 %,
      hue 10 %), one of five grey (Chen et al., ICML 2020), as PaCo's and ACL's further views.
    * ``randaugment_stack``: simaugment, half of the images blurred, then RandAugment as above: ACL on ImageNet-LT.

    Args:
        name: in a run's record.
        first: of the first view.
        others: of further views; null: as the first.
        padding: black border of a crop, as a share of the side; larger images are cropped without one.
    """

    kinds: ClassVar[tuple[str, ...]] = ("image",)
    draws_first: ClassVar[bool] = True  # the first view is not the row itself
    same_text: ClassVar[bool] = False

    def __init__(
        self,
        name: str,
        first: Policy,
        others: Annotated[Policy | None, "with method.num_views>1"] = None,
        padding: Annotated[float, ">= 0", "< 1"] = 0.125,
    ) -> None:
        self.name, self.first, self.others, self.padding = name, first, others or first, padding

    def load(self) -> None:
        """Import what the policies draw by: W&B's hooks on imports fail in forked loader processes."""
        if {self.first, self.others} - {"shift", "crop_flip"}:
            import kornia.augmentation.auto  # noqa: F401

    def view(self, pixels: Tensor, number: int, size: int, seed: int) -> Tensor:
        """One view of each image.

        Args:
            pixels: (B, 3, S, S) uint8.
            number: of the view, from 0.
            size: side of the view.
            seed: decides all that is drawn.

        Returns:
            (B, 3, size, size) uint8.
        """
        # kornia draws from torch's own stream and takes no generator
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(seed)
            policy = self.others if number else self.first
            if policy in _FLOAT_POLICIES:
                return _bytes(_FLOAT_POLICIES[policy](_floats(pixels), size))
            pixels = cropped(pixels, size, self.padding)
            if policy == "shift":
                return pixels
            pixels = flipped(pixels)
            return pixels if policy == "crop_flip" else cut_out(_bytes(auto_augmented(_floats(pixels))), size // 2)


def cropped(pixels: Tensor, size: int, padding: float) -> Tensor:
    """A random square of each image, (B, 3, H, W) to (B, 3, size, size); of images of that size, of the image with a
    black border."""
    if pixels.shape[-1] == size:
        border = round(padding * size)
        pixels = torch.nn.functional.pad(pixels, (border, border, border, border))
    place = torch.arange(size)
    room = pixels.shape[-1] - size + 1
    rows = torch.randint(room, (len(pixels), 1)) + place
    columns = torch.randint(room, (len(pixels), 1)) + place
    images = torch.arange(len(pixels))[:, None, None]
    return pixels.permute(0, 2, 3, 1)[images, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2).contiguous()


def flipped(pixels: Tensor) -> Tensor:
    """Each image of (B, C, H, W), or with probability 1/2 its mirror image."""
    return torch.where(torch.rand(len(pixels), 1, 1, 1) < 0.5, pixels.flip(3), pixels)


def cut_out(pixels: Tensor, side: int) -> Tensor:
    """Each image (B, C, H, W) with a black square of `side` pixels around a random pixel, cut off at the borders."""
    height, width = pixels.shape[-2:]
    rows, columns = (torch.randint(n, (len(pixels), 1)) - side // 2 for n in (height, width))
    in_rows, in_columns = (
        (torch.arange(n) >= first) & (torch.arange(n) < first + side) for n, first in ((height, rows), (width, columns))
    )
    return pixels.masked_fill((in_rows[:, :, None] & in_columns[:, None, :])[:, None], 0)


def auto_augmented(images: Tensor) -> Tensor:
    """A sub-policy of AutoAugment for CIFAR-10, drawn for each image; (B, 3, H, W) in [0, 1]."""
    policies = _cifar_policies()
    return _by_draw(images, torch.randint(len(policies), (len(images),)), policies)


def rand_augmented(images: Tensor, number: int = 2) -> Tensor:
    """So many different operations of RandAugment at magnitude 10 of 30, drawn for each; (B, 3, H, W) in [0, 1]."""
    operations = _rand_operations()
    for draw in torch.rand(len(images), len(operations)).argsort(1)[:, :number].T:
        images = _by_draw(images, draw, operations)
    return images


def _by_draw(images: Tensor, draws: Tensor, operations: list[Callable[[Tensor], Tensor]]) -> Tensor:
    """Each image (B, ...) by the operation that was drawn for it."""
    out = images.clone()
    for draw in draws.unique().tolist():
        chosen = draws == draw
        out[chosen] = operations[draw](images[chosen])
    return out


def _rand_view(images: Tensor, size: int) -> Tensor:
    return rand_augmented(_transforms()["strong"](_resized(images, size, 0.08)))


def _sim_view(images: Tensor, size: int) -> Tensor:
    return _transforms()["sim"](_resized(images, size, 0.2))


def _stacked_view(images: Tensor, size: int) -> Tensor:
    return rand_augmented(_blurred(_sim_view(images, size)))


def _blurred(images: Tensor) -> Tensor:
    import kornia.augmentation as K

    width = max(3, images.shape[-1] // 20 * 2 + 1)  # odd, a tenth of the side
    return K.RandomGaussianBlur((width, width), (0.1, 2.0), p=0.5)(images)


_FLOAT_POLICIES: dict[str, Callable[[Tensor, int], Tensor]] = {
    "randaugment": _rand_view,
    "simaugment": _sim_view,
    "randaugment_stack": _stacked_view,
}


def _resized(images: Tensor, size: int, least: float) -> Tensor:
    import kornia.augmentation as K

    return K.RandomResizedCrop((size, size), (least, 1.0), cropping_mode="resample")(images)


@cache
def _transforms() -> dict[str, Any]:
    import kornia.augmentation as K

    flip = K.RandomHorizontalFlip(p=0.5)
    sim = K.ColorJitter(0.4, 0.4, 0.4, 0.1, p=0.8)
    strong = K.ColorJitter(0.4, 0.4, 0.4, 0.0, p=1.0)
    sequential = torch.nn.Sequential
    return {"sim": sequential(flip, sim, K.RandomGrayscale(p=0.2)), "strong": sequential(flip, strong)}


@cache
def _cifar_policies() -> list[Callable[[Tensor], Tensor]]:
    from kornia.augmentation.auto import AutoAugment

    return list(AutoAugment("cifar10").children())


@cache
def _rand_operations() -> list[Callable[[Tensor], Tensor]]:
    from kornia.augmentation.auto import RandAugment
    from kornia.augmentation.auto.rand_augment.rand_augment import default_policy

    return [RandAugment(n=1, m=10, policy=[operation]) for operation in default_policy]


def _floats(pixels: Tensor) -> Tensor:
    return pixels.float() / 255


def _bytes(images: Tensor) -> Tensor:
    return (images.clamp(0, 1) * 255).round().to(torch.uint8)
