"""Answers of a long computation, kept on disk piece by piece: killed, it goes on with those that are there."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from storage.errors import ReportError
from storage.files import open_held, write_errors


class Journal:
    """A line of JSON for what was asked, and one for each piece of answers; a line counts once it is whole."""

    def __init__(self, file: BinaryIO, question: Any) -> None:
        self.file = file
        file.seek(0)
        if self._next_line() != question:
            file.seek(0)
            self._append(question)

    def answers(self, compute: Callable[[], list[Any]]) -> tuple[list[Any], bool]:
        """Those of the next piece, and whether they were kept; `compute` gives those that were not."""
        start = self.file.tell()
        kept = self._next_line()
        if kept is not None:
            return kept, True
        self.file.seek(start)
        computed = compute()
        self._append(computed)
        return computed, False

    def _next_line(self) -> Any:
        line = self.file.readline()
        try:
            return json.loads(line) if line.endswith(b"\n") else None
        except ValueError:  # what a power cut leaves
            return None

    def _append(self, content: Any) -> None:
        self.file.truncate()  # from here on
        self.file.write(json.dumps(content).encode() + b"\n")
        self.file.flush()


@contextmanager
def kept_answers(output: Path | str, question: Any) -> Iterator[Journal]:
    """The journal of `output`, a hidden file beside it: empty unless it was begun for the same `question`.

    It is removed when the block ends, or with bad input; a stop, a kill and a fault leave it.

    Args:
        question: plain JSON; whatever the answers follow from.

    Raises:
        ReportError: the folder cannot be written to; another process writes the same output.
    """
    output = Path(output)
    path = output.with_name(f".{output.name}.answers")
    with write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        file = open_held(path, f"{output}: another process writes it; allowed: another output, or wait")
    with file:
        try:
            with write_errors(path):
                yield Journal(file, question)
        except ValueError as error:
            if not isinstance(error, ReportError):  # a full disk is no bad input
                path.unlink(missing_ok=True)
            raise
        path.unlink(missing_ok=True)
