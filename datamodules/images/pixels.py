"""Where the pixels of a data set lie: in the memory-mapped table of its corpus, or in files that are read as needed."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from storage.errors import InputError
from storage.run_store import first_line

CHANNELS = 3


class TablePixels:
    """N images of a column of bytes, each R, G and B of `size` times `size` pixels, row by row; nothing is copied.

    Args:
        column: fixed-size binary, memory-mapped.
        digest: names the content.
    """

    def __init__(self, column: pa.ChunkedArray, digest: str) -> None:
        self.digest, width = digest, column.type.byte_width
        self.size = math.isqrt(width // CHANNELS)
        shape = (-1, CHANNELS, self.size, self.size)
        self.parts = [
            np.frombuffer(chunk.buffers()[1], np.uint8, len(chunk) * width, chunk.offset * width).reshape(shape)
            for chunk in column.chunks
        ]
        self.starts = np.cumsum([0, *map(len, self.parts)])

    def __len__(self) -> int:
        return int(self.starts[-1])

    def take(self, rows: np.ndarray) -> np.ndarray:
        """Pixels ``(B, 3, size, size)`` uint8 of these rows."""
        pixels = np.empty((len(rows), CHANNELS, self.size, self.size), np.uint8)
        part = np.searchsorted(self.starts, rows, "right") - 1
        for number in np.unique(part):
            chosen = part == number
            pixels[chosen] = self.parts[number][rows[chosen] - self.starts[number]]
        return pixels


class FilePixels:
    """N images in files, decoded when a batch asks for them.

    Args:
        paths: of the files.
        size: of the square that is cut out of the middle, the shorter side being scaled to it.
    """

    def __init__(self, paths: Sequence[str], size: int) -> None:
        self.paths, self.size = paths, size

    @property
    def digest(self) -> str:
        return hashlib.sha256(f"{self.size} {files_digest(self.paths)} {self.paths}".encode()).hexdigest()

    def __len__(self) -> int:
        return len(self.paths)

    def take(self, rows: np.ndarray) -> np.ndarray:
        """Pixels ``(B, 3, size, size)`` uint8 of these rows. Raises InputError: a file that is no whole image."""
        return np.stack([decoded(self.paths[row], self.size) for row in rows])


def decoded(path: str | Path, size: int) -> np.ndarray:
    """An image file as ``(3, size, size)`` uint8: in RGB, its shorter side scaled to `size`, the middle cut out.

    Grey images, palettes and transparency become RGB as Pillow converts them; turned photographs are set upright.

    Raises:
        InputError: no such file, or it is no whole image; the line names it.
    """
    from PIL import Image, ImageOps

    try:
        with Image.open(path) as file:
            image = ImageOps.fit(ImageOps.exif_transpose(file).convert("RGB"), (size, size), Image.Resampling.BILINEAR)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file, allowed: an image") from None
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:  # Pillow's many ways to say so
        raise InputError(f"{path}: cannot be read as an image ({first_line(error)})") from error
    return np.asarray(image).transpose(2, 0, 1)


def centre(pixels: np.ndarray, size: int) -> np.ndarray:
    """The middle ``(B, 3, size, size)`` of larger squares."""
    margin = (pixels.shape[-1] - size) // 2
    return pixels[:, :, margin : margin + size, margin : margin + size]


def files_digest(paths: Iterable[str | Path]) -> str:
    """SHA-256 over the sizes and times of change of files, by which other content in one of them is told."""
    facts = (f"{stat.st_size} {stat.st_mtime_ns}" for stat in map(os.stat, paths))
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()
