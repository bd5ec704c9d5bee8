"""Parquet, a batch of rows at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from storage.errors import InputError
from storage.tables.header import refuse_no_header, told_apart
from storage.tables.table import Row, Table

BATCH = 1024  # rows of Parquet in memory at a time


def open_parquet(path: Path, has_header: bool | None) -> Table:
    """The table of a file. Raises InputError where it is none, or its columns are said to have no names."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    refuse_no_header(has_header, str(path), "Parquet")
    try:
        file = pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path}: not a Parquet file that can be read, allowed: Parquet") from error

    columns = told_apart(str(path), file.schema_arrow.names)

    def rows() -> Iterator[tuple[str, Row]]:
        number = 0
        try:
            for batch in file.iter_batches(BATCH):
                for row in batch.rename_columns(columns).to_pylist():
                    number += 1
                    yield f"{path}:{number}", row
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{path}:{number + 1}: damaged from here on, allowed: a whole Parquet file") from error

    return Table(str(path), tuple(columns), rows())
