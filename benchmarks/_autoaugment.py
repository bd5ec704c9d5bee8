"""AutoAugment for CIFAR-10 and Cutout by Pillow, image by image: what the loaders of published long-tail codes do."""

from collections.abc import Callable

import torch
from kornia.augmentation.auto.autoaugment.autoaugment import cifar10_policy
from PIL import Image, ImageEnhance, ImageOps
from torch import Tensor

LEVELS = 9  # magnitudes go from 0 to this
GREY = (128, 128, 128)

Operation = Callable[[Image.Image, float], Image.Image]  # share of the greatest magnitude, with its sign


def _affine(image: Image.Image, *matrix: float) -> Image.Image:
    return image.transform(image.size, Image.Transform.AFFINE, matrix, fillcolor=GREY)


def _enhanced(kind: type) -> Operation:
    return lambda image, share: kind(image).enhance(1 + 0.9 * share)


OPERATIONS: dict[str, Operation] = {
    "shear_y": lambda image, share: _affine(image, 1, 0, 0, 0.3 * share, 1, 0),
    "translate_x": lambda image, share: _affine(image, 1, 0, 150 / 331 * share * image.size[0], 0, 1, 0),
    "translate_y": lambda image, share: _affine(image, 1, 0, 0, 0, 1, 150 / 331 * share * image.size[1]),
    "rotate": lambda image, share: image.rotate(30 * share, fillcolor=GREY),
    "posterize": lambda image, share: ImageOps.posterize(image, 8 - round(4 * abs(share))),
    "solarize": lambda image, share: ImageOps.solarize(image, 256 - int(256 * abs(share))),
    "auto_contrast": lambda image, share: ImageOps.autocontrast(image),
    "equalize": lambda image, share: ImageOps.equalize(image),
    "invert": lambda image, share: ImageOps.invert(image),
    "color": _enhanced(ImageEnhance.Color),
    "contrast": _enhanced(ImageEnhance.Contrast),
    "brightness": _enhanced(ImageEnhance.Brightness),
    "sharpness": _enhanced(ImageEnhance.Sharpness),
}


def auto_augmented(image: Tensor) -> Tensor:
    """One image (3, H, W) uint8 by a sub-policy that is drawn from torch's stream."""
    picture = Image.fromarray(image.permute(1, 2, 0).numpy())
    for name, probability, level in cifar10_policy[int(torch.randint(len(cifar10_policy), ()))]:
        chance, sign = torch.rand(2).tolist()
        if chance < probability:
            share = (level or 0) / LEVELS
            picture = OPERATIONS[name](picture, share if sign < 0.5 else -share)
    return torch.frombuffer(bytearray(picture.tobytes()), dtype=torch.uint8).reshape(*picture.size, 3).permute(2, 0, 1)


def cut_out(image: Tensor, side: int) -> Tensor:
    """One image (3, H, W) with a black square around a random pixel."""
    height, width = image.shape[1:]
    top, left = int(torch.randint(height, ())) - side // 2, int(torch.randint(width, ())) - side // 2
    image = image.clone()
    image[:, max(top, 0) : top + side, max(left, 0) : left + side] = 0
    return image
