"""CIFAR-10 and CIFAR-100: 60,000 images of 32 x 32 pixels, from the archive as it is published.

The archive holds pickles, which could run any code. They are read by an unpickler that knows nothing but the arrays,
numbers and names that are in them, and only after the archive's MD5 is the published one.
"""

import hashlib
import io
import pickle
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np

from datamodules.builders.base import Name, Row, checked_file
from datamodules.builders.images import ImageDataset
from storage.errors import InputError
from storage.files import expanded
from storage.run_store import first_line

DAMAGED = LookupError, TypeError, ValueError, EOFError, OSError, tarfile.TarError, pickle.PickleError
PAGE = "https://www.cs.toronto.edu/~kriz/cifar.html"
Archive = Annotated[str | None, "known by md5"]  # a run has the same id wherever the archive lies


class Cifar(ImageDataset):
    """The published archive, from a folder of the user's.

    Args:
        archive: path of the archive.
        name: name in run ids and folders.
        md5: of the archive; null reads one that is not the published one.

    The remaining arguments are those of `ImageDataset`.

    Raises:
        InputError: no archive, another MD5, or no such content.
    """

    licence = "not stated; the authors ask to be cited (Krizhevsky, 2009)"
    origin = PAGE
    size = 32
    file: ClassVar[str]  # of the archive, as published
    folder: ClassVar[str]  # in it
    members: ClassVar[dict[str, tuple[str, ...]]]  # split -> its files
    names: ClassVar[tuple[str, bytes]]  # file and key of the names of the classes
    labels: ClassVar[bytes]  # key of the labels

    def __init__(self, archive: str | None, name: Name, md5: str | None, **options: Any) -> None:
        super().__init__(name, **options)
        self.archive, self.md5 = archive, md5

    def own_files(self) -> tuple[Path, ...]:
        needed = f"allowed: {self.file}, published at {PAGE}; put it anywhere and type dataset.archive=PATH"
        if self.archive is None or not expanded(self.archive).is_file():
            raise InputError(f"dataset.archive: found {self.archive or 'null'}, no such file; {needed}")
        return (checked_file(self.archive, "dataset.archive"),)

    def identity(self) -> dict[str, Any]:
        return super().identity() | {"md5": self.md5}

    def rows(self, files: dict[str, Path]) -> dict[str, Iterator[Row]]:
        (archive,) = self.own_files()
        with archive.open("rb") as file:
            digest = hashlib.file_digest(file, "md5").hexdigest()
        if self.md5 is not None and digest != self.md5:
            raise InputError(
                f"dataset.archive={archive}: found MD5 {digest}, allowed: {self.md5}, that of {self.file} at {PAGE}"
            )
        try:
            with tarfile.open(archive) as tar:
                names = [name.decode() for name in self._member(tar, self.names[0])[self.names[1]]]
                parts = {split: [self._member(tar, name) for name in self.members[split]] for split in self.members}
            if not all(self._is_whole(part, len(names)) for split in parts for part in parts[split]):
                raise ValueError("images and labels that do not fit")
        except DAMAGED as error:
            raise InputError(f"dataset.archive={archive}: found no {self.file} ({first_line(error)})") from error
        return {split: self._rows_of(parts[split], names) for split in parts}

    def _is_whole(self, part: dict[bytes, Any], num_classes: int) -> bool:
        pixels, labels = np.asarray(part[b"data"]), part[self.labels]
        return pixels.shape == (len(labels), 3072) and all(0 <= label < num_classes for label in labels)

    def _member(self, tar: tarfile.TarFile, name: str) -> dict[bytes, Any]:
        path = f"{self.folder}/{name}"
        try:
            file = tar.extractfile(path)
            assert file is not None
            content = _ArraysOnly(io.BytesIO(file.read()), encoding="bytes").load()
        except (*DAMAGED, AssertionError) as error:
            raise InputError(f"dataset.archive={self.archive}: {path}: cannot be read ({first_line(error)})") from error
        return content

    def _rows_of(self, parts: list[dict[bytes, Any]], names: list[str]) -> Iterator[Row]:
        for part in parts:
            for pixels, label in zip(part[b"data"], part[self.labels], strict=True):
                yield {"image": np.asarray(pixels, np.uint8).tobytes(), "label": names[label]}


class Cifar10(Cifar):
    """Ten classes of 5,000 train and 1,000 test images. Arguments as `Cifar`."""

    file, folder, labels = "cifar-10-python.tar.gz", "cifar-10-batches-py", b"labels"
    members = {"train": tuple(f"data_batch_{number}" for number in range(1, 6)), "test": ("test_batch",)}
    names = "batches.meta", b"label_names"

    def __init__(
        self,
        archive: Archive = None,
        name: Name = "cifar10",
        md5: str | None = "c58f30108f718f92721af3b95e74349a",
        **options: Any,
    ) -> None:
        super().__init__(archive, name, md5, **options)


class Cifar100(Cifar):
    """A hundred classes of 500 train and 100 test images: the fine labels. Arguments as `Cifar`."""

    file, folder, labels = "cifar-100-python.tar.gz", "cifar-100-python", b"fine_labels"
    members = {"train": ("train",), "test": ("test",)}
    names = "meta", b"fine_label_names"

    def __init__(
        self,
        archive: Archive = None,
        name: Name = "cifar100",
        md5: str | None = "eb9058c3a382ffc7106e4002c42a8d85",
        **options: Any,
    ) -> None:
        super().__init__(archive, name, md5, **options)


class _ArraysOnly(pickle.Unpickler):
    """Reads arrays, numbers, strings, lists and dicts; whatever else a pickle names is refused and not imported."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in (("numpy", "ndarray"), ("numpy", "dtype")):
            return getattr(np, name)
        if module in ("numpy.core.multiarray", "numpy._core.multiarray") and name == "_reconstruct":
            return np._core.multiarray._reconstruct  # type: ignore[attr-defined]
        raise pickle.UnpicklingError(f"found {module}.{name}, allowed: arrays, numbers and names")
