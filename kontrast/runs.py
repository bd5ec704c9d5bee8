"""From keyword settings and texts to finished runs: the command line's own config, plan and run store."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from omegaconf import DictConfig, OmegaConf

from datamodules.markup import without_markup
from engine.identify import compose_run
from storage.command_words import value_word
from storage.errors import InputError, short, short_list
from storage.files import replacing
from storage.tables import is_visible, text_columns, text_of

HALF = re.compile("[\ud800-\udfff]")


def overrides(settings: Mapping[str, Any]) -> list[str]:
    """Settings as the words of a command line: `loss__tau=0.5` is `loss.tau=0.5`, `encoder__lora` a group is not."""
    return [f"{key.replace('__', '.')}={value_word(value)}" for key, value in settings.items()]


def config_of(words: Iterable[str]) -> DictConfig:
    """The config of a command line. Raises InputError, in one line, where the words do not compose."""
    run = compose_run(tuple(words))
    if run.problem:
        raise InputError(run.problem)
    return OmegaConf.create(dict(run.config))


@contextmanager
def with_threads(number: int | None = None) -> Iterator[None]:
    """PyTorch works with so many threads inside, None: as many as before, which are the caller's again afterwards."""
    import torch

    before = torch.get_num_threads()
    try:
        if number is not None:
            torch.set_num_threads(int(number))
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def unseeded() -> Iterator[None]:
    """What is done inside leaves the caller's random numbers and threads as they were: a run seeds all global
    generators, and sets PyTorch's number of threads."""
    from lightning.pytorch.utilities.seed import isolate_rng

    kept = {name: os.environ.get(name) for name in ("PL_GLOBAL_SEED", "PL_SEED_WORKERS")}
    error: BaseException | None = None
    with with_threads(), isolate_rng():  # which undoes nothing where it is left by an error
        try:
            yield
        except BaseException as raised:
            error = raised
    for name, value in kept.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value
    if error is not None:
        raise error


def checked_texts(texts: Any, markup: str = "keep", column: str | None = None) -> list[str]:
    """Texts of a list, an array or a pandas Series, or the one column of a frame, as they are.

    Args:
        markup: what becomes of tags and entities later; `strip`: a text of these alone is none.
        column: that is taken of a frame of several, as a table is read: `TITLE+BODY` joins two.

    Raises:
        InputError: no texts, several columns or a frame without its own, or an entry that is no text with a visible
            character; with its position.
    """
    if isinstance(texts, str | Mapping) or texts is None or getattr(texts, "ndim", 1) == 0:
        kind = "one text" if isinstance(texts, str) else type(texts).__name__
        raise InputError(f"X: found {kind}, allowed: a list, array or Series of texts")
    if getattr(texts, "ndim", 1) == 2:
        names = list(map(str, getattr(texts, "columns", ())))
        if column is not None and names and (len(names) > 1 or len(text_columns(names, column)) > 1):
            texts = _texts_of_frame(texts, column)
        elif texts.shape[1] == 1:  # a frame would give the names of its columns
            texts = np.asarray(texts)[:, 0]
        else:
            raise InputError(f"X: found {texts.shape[1]} columns, allowed: one, of texts")
    entries = [str(text) if isinstance(text, np.str_) else text for text in texts]
    for place, text in enumerate(entries):
        if not isinstance(text, str) or not is_visible(without_markup(text) if markup == "strip" else text):
            outside = " outside its markup" if markup == "strip" else ""
            allowed = f"a text with at least one visible character{outside}"
            raise InputError(f"X[{place}]: found {short(text)}, allowed: {allowed}")
        if HALF.search(text):
            raise InputError(f"X[{place}]: found half a surrogate pair, allowed: Unicode text")
    if not entries:
        raise InputError("X: no texts, allowed: at least one")
    return entries


def _texts_of_frame(frame: Any, column: str) -> list[Any]:
    names = list(map(str, frame.columns))
    parts = text_columns(names, column)
    if lacking := [part for part in parts if part not in names]:
        raise InputError(f"X: found no column {short_list(lacking)}, allowed: a frame with {column}, or texts alone")
    if twice := [part for part in parts if names.count(part) > 1]:
        raise InputError(f"X: found several columns {short_list(twice)}, allowed: one of the name, or texts alone")
    series = [frame.iloc[:, names.index(part)].astype(object) for part in parts]
    rows = zip(*(values.where(values.notna(), None) for values in series), strict=True)
    return [text_of(dict(zip(parts, row, strict=True)), column) for row in rows]


def written(columns: Mapping[str, Sequence[Any]], folder: Path) -> Path:
    """The rows, texts or lists of them, as a Parquet file named by its content, so that equal rows are one run."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    digest = hashlib.sha256()
    for name, values in columns.items():
        digest.update(name.encode())
        for value in values:
            digest.update(f"{len(value)}:{value}".encode("utf-8", "surrogatepass"))
    path = folder / "python" / f"{digest.hexdigest()[:16]}.parquet"
    if not path.exists():
        with replacing(path) as file:
            pq.write_table(pa.table({name: list(values) for name, values in columns.items()}), file)
    return path
