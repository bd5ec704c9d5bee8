"""A user's own images: a folder for each class, or list files as ImageNet-LT and iNaturalist publish theirs."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from datamodules.builders.base import Name, Row, checked_file
from datamodules.builders.images import ImageDataset, checked_image, image_files, listed_lines
from datamodules.images.pixels import files_digest
from storage.errors import InputError, short
from storage.files import expanded

MARGIN = 8 / 7  # files are decoded so much larger than what is cut out of them: 256 for 224, as is usual


class ImageFolder(ImageDataset):
    """Images below `root`, read batch by batch.

    With list files each line is a path below `root` and a label, separated by the last space. Without them the folders
    of `root` are `train` and, where they are there, `val` and `test`, or else themselves the classes; the folder in
    which an image lies is its label. Where there is no test split a stratified fifth of train becomes test.

    Args:
        root: the folder.
        train_list, val_list, test_list: list files.
        name: name in run ids and folders.
        size: side of the square that the encoder sees; files are scaled to 8/7 of it.
        split_seed: seed of the test split where there is none.

    The remaining arguments are those of `ImageDataset`.

    Raises:
        InputError: no such folder or file; a line without a label, or whose image is not there.
    """

    licence = "the user's own files"
    differences = "no paper to compare with"
    test_fraction = 0.2

    def __init__(
        self,
        root: str,
        train_list: str | None = None,
        val_list: str | None = None,
        test_list: str | None = None,
        name: Name = "image_folder",
        size: Annotated[int, ">= 4"] = 224,
        split_seed: Annotated[int, ">= 0"] = 0,
        **options: Any,
    ) -> None:
        super().__init__(name, **options)
        self.size, self.root = size, expanded(root)
        lists = {"train": train_list, "val": val_list, "test": test_list}
        self.lists = {split: expanded(path) for split, path in lists.items() if path is not None}
        if self.lists and "train" not in self.lists:
            raise InputError("dataset.train_list: found null, allowed with another list: a list of the train images")
        self.split_seed, self.origin = split_seed, str(self.root)

    @property
    def read_size(self) -> int:
        return round(self.size * MARGIN)

    def own_files(self) -> tuple[Path, ...]:
        self._check_root()
        return tuple(checked_file(path, f"dataset.{split}_list") for split, path in self.lists.items())

    def folder_digests(self) -> dict[str, str]:
        """A digest of the images below `root`, by names and sizes: without lists they decide the rows."""
        self._check_root()
        files = [] if self.lists else map(Path, self._files)
        facts = [f"{file.relative_to(self.root)} {file.stat().st_size}" for file in files]
        return {str(self.root): hashlib.sha256("\n".join(facts).encode()).hexdigest()}

    @property
    def _files(self) -> list[str]:
        return image_files(self.root)

    def identity(self) -> dict[str, Any]:
        # the rows hold the place of each file
        where = {"root": str(self.root.resolve()), "splits": list(self.lists), "size": self.size}
        return super().identity() | where | ({} if self.lists else {"files": files_digest(self._files)})

    def rows(self, files: dict[str, Path]) -> dict[str, Iterator[Row]]:
        if self.lists:
            return {split: self._listed(path) for split, path in self.lists.items()}
        folders = {split: self.root / split for split in ("train", "val", "test") if (self.root / split).is_dir()}
        if folders and "train" not in folders:
            others, allowed = ", ".join(folders), "a folder train beside them, or folders of classes alone"
            raise InputError(f"dataset.root: {self.root} holds {others}, allowed: {allowed}")
        return {split: self._found(folder) for split, folder in (folders or {"train": self.root}).items()}

    def _listed(self, file: Path) -> Iterator[Row]:
        for where, line in listed_lines(file):
            path, _, label = line.rpartition(" ")
            if not path:
                raise InputError(f"{where}: found {short(line)}, allowed: the path of an image, a space and a label")
            yield {"image": checked_image(self.root, path.strip(), where), "label": label, "where": where}

    def _found(self, folder: Path) -> Iterator[Row]:
        files = image_files(folder)
        classes = {Path(file).relative_to(folder).parts[0] for file in files}
        for path in sorted(folder.iterdir()):
            if path.is_dir() and not path.name.startswith(".") and path.name not in classes:
                raise InputError(f"{path}: found no image, allowed: images in the folder of each class")
        for file in files:
            label = Path(file).relative_to(folder).parts[0]
            if Path(file).parent == folder:
                raise InputError(f"{file}: found an image outside the folders of the classes, allowed: a folder each")
            yield {"image": file, "label": label, "where": file}

    def _check_root(self) -> None:
        if not self.root.is_dir():
            raise InputError(f"dataset.root={self.root}: no such folder, allowed: a folder with images")
