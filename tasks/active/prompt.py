"""A person as the oracle in the terminal: one key a text, undo, and every answer on disk at once."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TextIO

from labelling.answers import NO_LABEL, NONE_FITS, Answer, AnswerBook, Label, in_table
from labelling.desk import Suggestion
from labelling.keys import CLASS_KEYS, COMMANDS
from reporting.escape import for_terminal, shortened
from storage.errors import InputError, Stopped

WORDS = {key: word for key, word in COMMANDS.items() if word in NO_LABEL}
UNDO, QUIT = "u", "q"
BACKSPACE, ENTER, ESCAPE, END = "\x7f\b", "\r\n", "\x1b", "\x04"


class Prompt:
    """Asks for labels key by key; every answer is in the book before the next text is shown.

    Args:
        book: where the answers are kept; texts that it has an answer to are not asked for again.
        label_names: the classes.
        budget: labels in all, for the progress bar.
        shows_guess: whether the model's guess stands below a text.
        keys: where the keys come from, standard input by default.

    Raises:
        InputError: more classes than keys.
    """

    def __init__(
        self,
        book: AnswerBook,
        label_names: Sequence[str],
        budget: int | None = None,
        shows_guess: bool = True,
        keys: Iterator[str] | None = None,
    ) -> None:
        if len(label_names) > len(CLASS_KEYS):
            raise InputError(
                f"active.oracle: found prompt with {len(label_names)} classes; allowed: up to {len(CLASS_KEYS)}, "
                f"or active.oracle=browser|file"
            )
        book.check_classes(label_names)
        self.book, self.budget, self.shows_guess, self.keys = book, budget, shows_guess, keys
        self.classes = dict(zip(CLASS_KEYS, label_names, strict=False))

    def ask(self, texts: Mapping[str, Suggestion]) -> None:
        """Go through the texts until each has an answer and Enter is typed.

        Raises:
            InputError: no more keys.
            Stopped: the person had enough; what was answered stays.
        """
        order = sorted(texts, key=lambda text: self.book.label(text) is None)  # those that are answered first
        labels = self.classes | WORDS
        keys = keys_of(sys.stdin) if self.keys is None else self.keys
        screen = _Screen(self.classes, self.shows_guess)
        place = sum(self.book.label(text) is not None for text in order)
        several, picked = self.book.separator is not None, set[str]()
        while True:
            screen.show(self.book, order, place, texts, self.budget, picked if several else None)
            key = next(keys, None)
            if key is None and place < len(order):
                missing = len(order) - place
                raise InputError(
                    f"active.oracle: {missing} of {len(order)} labels are missing; type the same line again"
                )
            if place == len(order) and (key is None or key in ENTER):
                return
            if key == QUIT:
                raise Stopped(f"every answer is kept in {self.book.path}; the same line goes on")
            if key == UNDO or (key and key in BACKSPACE):
                place = max(place - 1, 0)
                if self.book.label(order[place]) is not None:
                    self.book.withdraw(order[place])
                picked = set()
            elif several and key is not None and key in self.classes and place < len(order):
                picked ^= {self.classes[key]}
            elif place < len(order) and key and (key in labels or (several and key in ENTER and picked)):
                said: Label = tuple(sorted(picked)) if key in ENTER else labels[key]
                said = () if several and said == NONE_FITS else said
                shown = texts[order[place]]
                self.book.record(Answer(order[place], said, guess=shown.guess, probability=shown.probability))
                place, picked = place + 1, set()


class _Screen:
    """What the person sees, on standard error: the text, why it, what each key means, how far it is."""

    def __init__(self, classes: Mapping[str, str], shows_guess: bool) -> None:
        from rich.console import Console

        self.shows_guess = shows_guess
        self.console = Console(stderr=True, highlight=False)
        self.meanings = " ".join(f"[{key}] {for_terminal(name)}" for key, name in {**classes, **COMMANDS}.items())

    def show(
        self, book: AnswerBook, order: Sequence[str], place: int, texts: Mapping[str, Suggestion], budget: int | None,
        picked: set[str] | None,
    ) -> None:  # fmt: skip
        from rich.progress_bar import ProgressBar
        from rich.text import Text

        self.console.rule()
        if place:
            said = book.label(order[place - 1])
            line = f"{for_terminal('' if said is None else in_table(said, None))}: {_on_one_line(order[place - 1])}"
            self.console.print(Text(line, style="dim"), no_wrap=True)
        self.console.print(ProgressBar(total=len(order), completed=place, width=40))
        labelled = sum(book.label(text) not in NO_LABEL for text in book.by_text)
        total = "" if budget is None else f", {labelled} of {budget} labels"
        self.console.print(Text(f"{place} of {len(order)}{total}"))
        if place < len(order):
            shown = texts[order[place]]
            self.console.print(Text(for_terminal(shown.reason), style="dim"))
            self.console.print(Text(f"\n{_printable(order[place])}\n", style="bold"))
            if self.shows_guess and shown.guess is not None:
                guess = for_terminal(in_table(shown.guess, None))
                self.console.print(Text(f"the model says {guess}, {shown.probability:.0%}"))
            if picked is not None:
                self.console.print(
                    Text(f"chosen: {for_terminal(', '.join(sorted(picked))) or 'none yet'}; [Enter] next")
                )
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
