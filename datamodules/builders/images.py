"""What every data set of images does."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from datamodules.builders.base import Dataset, Name, Row, Singletons
from storage.errors import InputError, short
from storage.tables import STDIN, Table, open_table

if TYPE_CHECKING:
    from datamodules.collation import Batch
    from datamodules.corpus import Corpus
    from datamodules.datamodule import DataModule

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
TEXT_COLUMN = "text"  # what nobody has typed: texts have it, images have `image`


class ImageDataset(Dataset):
    """A data set of images; subclasses give rows with the pixels of each, or with the path of its file.

    Rows are ``{"image": bytes or str, "label": str}``: the bytes are R, G and B of size times size pixels.

    Args:
        name: name in run ids and folders.
        num_workers: loader processes; 0 loads in the process that trains.

    The remaining arguments are those of `Dataset`, of which `unlabelled` is none for images.
    """

    kind, column = "image", "image"
    tasks: ClassVar[tuple[str, ...] | None] = ("fit", "describe", "evaluate", "predict")
    takes_folders = True
    size: int  # side of the square that the encoder sees, in pixels

    def __init__(
        self,
        name: Name,
        singleton_classes: Singletons = "refuse",
        num_workers: Annotated[int, ">= 0", "<= 256"] = 0,
        **options: Any,
    ) -> None:
        super().__init__(name, singleton_classes, **options)
        if self.unlabelled is not None:
            raise InputError(f"dataset.unlabelled: found {self.unlabelled}, allowed with dataset={name}: null")
        self.num_workers = num_workers

    @property
    def read_size(self) -> int:
        """Side of the square that image files are decoded to."""
        return self.size

    def datamodule(
        self,
        corpus: "Corpus",
        encoder: Any,
        augment: Any,
        prepare: Callable[[Any], None],
        cache_dir: Path,
        **options: Any,
    ) -> "DataModule":
        from datamodules.images.datamodule import ImageDataModule

        sizes = {"size": self.size, "read_size": self.read_size, "num_workers": self.num_workers}
        return ImageDataModule(corpus, augment=augment, **sizes, **options)

    def new_batches(self, encoder: Any, inputs: list, batch_size: int, of_one_width: bool) -> "Iterator[Batch]":
        from datamodules.images.datamodule import new_image_batches

        return new_image_batches(inputs, self.size, self.read_size, batch_size)

    def open_inputs(
        self,
        source: str,
        column: str,
        encoding: str | None,
        header: bool | None,
        delimiter: str | None = None,
        sheet: str | None = None,
        untyped: Sequence[str] = (),
    ) -> Table:
        """Image files: those of a folder, of a list (.txt, a path a line), or of a table with a column of paths.

        Paths are relative to the list or table that names them.
        """
        if source == STDIN:
            raise InputError(f"input: found {source}, allowed with images: a folder, a list of paths, or a table")
        column, path = (self.column if column == TEXT_COLUMN else column), Path(source)
        if not header and (path.is_dir() or path.suffix.lower() == ".txt"):
            raise InputError(f"{source}: header=false has no effect, allowed with a table; this has no columns")
        if path.is_dir():
            files = enumerate(image_files(path), 1)
            return Table(source, (self.column,), ((f"{path}: entry {n}", {self.column: file}) for n, file in files))
        if path.suffix.lower() == ".txt":
            lines = ((where, {self.column: line}) for where, line in listed_lines(path))
            return Table(source, (self.column,), _existing(lines, self.column, path.parent))
        table = open_table(source, None, delimiter, None, encoding, header, sheet=sheet)
        table.need(column, "set text_column=NAME")
        return replace(table, rows=_existing(table.rows, column, path.parent))

    def input_of(self, row: Row, column: str) -> Any:
        """The path of a row of `open_inputs`."""
        return row[self.column if column == TEXT_COLUMN else column]


def image_files(folder: Path) -> list[str]:
    """Image files below a folder, in order. Raises InputError where there is none."""
    files = sorted(str(file) for file in folder.rglob("*") if file.suffix.lower() in SUFFIXES)
    if not files:
        raise InputError(f"{folder}: no image below it, allowed: files {', '.join(SUFFIXES)}")
    return files


def listed_lines(file: Path) -> Iterator[tuple[str, str]]:
    """"file:line" and content of each line of a list that is not blank."""
    from storage.tables import TextLines

    for number, line in enumerate(TextLines(file), 1):
        if line.strip():
            yield f"{file}:{number}", line.strip()


def checked_image(folder: Path, name: str, where: str) -> str:
    """Path of a listed image. Raises InputError where there is no such file."""
    path = folder / name
    if not path.is_file():
        raise InputError(f"{where}: found {short(name)}, no such file below {folder}; allowed: a path below it")
    return str(path)


def _existing(rows: Iterator[tuple[str, Row]], column: str, folder: Path) -> Iterator[tuple[str, Row]]:
    where = None
    for where, row in rows:
        if not isinstance(row.get(column), str):
            raise InputError(f"{where}: found {short(row.get(column))} in {column}, allowed: the path of an image")
        yield where, row | {column: checked_image(folder, row[column], where)}
    if where is None:
        raise InputError(f"{folder}: no rows, allowed: a path a line")
