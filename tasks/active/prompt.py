"""A person as the oracle in the terminal: one key a text, undo, and every answer on disk at once."""

from __future__ import annotations

import string
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

from reporting.escape import for_terminal, shortened
from tasks.active.oracle import NO_LABEL, FileOracle

SKIP, AMBIGUOUS, UNDO, QUIT = "s", "a", "u", "q"
COMMANDS = {SKIP: "skip", AMBIGUOUS: "ambiguous", UNDO: "undo", QUIT: "quit"}
BACKSPACE, ENTER, ESCAPE, END = "\x7f\b", "\r\n", "\x1b", "\x04"
CLASS_KEYS = "".join(
    key for key in string.digits[1:] + string.ascii_lowercase + string.ascii_uppercase if key not in COMMANDS
)


class PromptOracle(FileOracle):
    """Asks for the labels of `file` key by key; the file is the state, whole after every key.

    Args:
        file: as of `FileOracle`; rows that hold a label already are not asked for again.
        budget: labels in all, for the progress bar; `labelled`: those of earlier rounds.
        keys: where the keys come from, standard input by default.
    """

    def __init__(
        self, file: Path, budget: int | None = None, labelled: int = 0, keys: Iterator[str] | None = None
    ) -> None:
        super().__init__(file)
        self.budget, self.labelled = budget, labelled
        self.keys = keys

    def answers(self, positions: list[int], texts: list[str], label_names: list[str]) -> list[int]:
        """Class of each text, or a number of `NO_LABEL`.

        Raises:
            ValueError: more classes than keys, a file that does not fit, or no more keys.
            KeyboardInterrupt: the person had enough; what was answered stays.
        """
        if len(label_names) > len(CLASS_KEYS):
            raise ValueError(
                f"active.oracle: found prompt with {len(label_names)} classes; allowed: up to {len(CLASS_KEYS)}, "
                f"or active.oracle=file"
            )
        rows = self.asked(positions, texts)
        self.checked(rows, label_names)
        self._ask(rows, dict(zip(CLASS_KEYS, label_names, strict=False)))
        return super().answers(positions, texts, label_names)

    def _ask(self, rows: list[dict[str, str]], classes: dict[str, str]) -> None:
        order = [row for row in rows if row["label"]] + [row for row in rows if not row["label"]]
        labels = classes | {SKIP: "skip", AMBIGUOUS: "ambiguous"}
        keys = keys_of(sys.stdin) if self.keys is None else self.keys
        screen = _Screen(classes)
        place = sum(bool(row["label"]) for row in order)
        while True:
            labelled = self.labelled + sum(row["label"] not in ("", *NO_LABEL) for row in order)
            screen.show(order, place, labelled, self.budget)
            key = next(keys, None)
            if key is None and place < len(order):
                missing = len(order) - place
                raise ValueError(
                    f"active.oracle: {missing} of {len(order)} labels are missing; type the same line again"
                )
            if place == len(order) and (key is None or key in ENTER):
                return
            if key == QUIT:
                raise KeyboardInterrupt
            if key == UNDO or (key and key in BACKSPACE):
                place = max(place - 1, 0)
                order[place]["label"] = ""
            elif key is not None and key in labels and place < len(order):
                order[place]["label"] = labels[key]
                place += 1
            else:
                continue
            self.write(rows)


class _Screen:
    """What the person sees, on standard error: the text, what each key means, how far it is."""

    def __init__(self, classes: dict[str, str]) -> None:
        from rich.console import Console

        self.console = Console(stderr=True, highlight=False)
        self.meanings = " ".join(f"[{key}] {for_terminal(name)}" for key, name in (classes | COMMANDS).items())

    def show(self, order: list[dict[str, str]], place: int, labelled: int, budget: int | None) -> None:
        from rich.progress_bar import ProgressBar
        from rich.text import Text

        self.console.rule()
        if place:
            last = order[place - 1]
            line = f"{for_terminal(last['label'])}: {_on_one_line(last['text'])}"
            self.console.print(Text(line, style="dim"), no_wrap=True)
        self.console.print(ProgressBar(total=len(order), completed=place, width=40))
        total = "" if budget is None else f", {labelled} of {budget} labels"
        self.console.print(Text(f"{place} of {len(order)}{total}"))
        if place < len(order):
            self.console.print(Text(f"\n{_printable(order[place]['text'])}\n", style="bold"))
            self.console.print(Text(self.meanings))
        else:
            self.console.print(Text(f"all answered: [Enter] train, [{UNDO}] undo, [{QUIT}] quit"))


def _printable(text: str) -> str:
    """A text in its own lines."""
    return "\n".join(map(for_terminal, text.split("\n")))


def _on_one_line(text: str) -> str:
    return shortened(for_terminal(" ".join(text.split())), 60)


def keys_of(stream: TextIO) -> Iterator[str]:
    """Keys as they are typed where `stream` is a terminal, else its characters one by one."""
    read: Callable[[], str] = (lambda: _key(stream)) if stream.isatty() else (lambda: stream.read(1))
    while key := read():
        yield key


def _key(stream: TextIO) -> str:
    """One key without Enter; Ctrl-C still interrupts, and the terminal is what it was before."""
    import os
    import select
    import termios
    import tty

    descriptor = stream.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor, termios.TCSADRAIN)
        key = os.read(descriptor, 1).decode(errors="replace")
        while key == ESCAPE and select.select([descriptor], [], [], 0.02)[0]:
            os.read(descriptor, 32)  # the rest of an arrow or a function key, which may hold digits
        return "" if key == END else key
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
