"""Which text is asked of whom next, and what the labelling has come to; shared by the page and the training."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from labelling.answers import (
    NO_LABEL,
    Answer,
    AnswerBook,
    Label,
    all_of_kind,
    check_labels,
    classes_of,
    in_table,
    record_new,
)
from storage.errors import InputError, short
from storage.tables import is_missing, label_text

LEASE = 60.0  # seconds without a sign of life after which a text that is open in a browser is asked of others
GLANCE = 5.0  # seconds without one after which nobody has the page open
PAUSE = 120.0  # seconds between two answers that are no work
RECENT = 30  # answers that the speed is taken from
AT_RANDOM = "drawn at random, while there is no model"
IN_THE_MEANTIME = "drawn at random, while the model learns"
NEIGHBOURS = 3


@dataclass(frozen=True)
class Suggestion:
    """Why a text is asked for, and what the model says of it.

    Attributes:
        reason: a phrase.
        score: what the strategy maximised.
        guess, probability: the model's class, or all its classes, and the probability of that in [0, 1], where there is
            a model.
        neighbours: up to three labelled texts: text, label, cosine similarity of the embeddings.
    """

    reason: str
    score: float = 0.0
    guess: Label | None = None
    probability: float | None = None
    neighbours: tuple[tuple[str, str, float], ...] = ()


@dataclass
class _Seat:
    """A browser."""

    position: int | None = None
    last_sign: float = field(default_factory=time.monotonic)  # of life
    answered: list[int] = field(default_factory=list)


class Desk:
    """The texts of a pool, who has which of them open, and the answers; every method may be called by any thread.

    A text is open in one browser at a time, and asked of as many people as the book says. What the strategy suggested
    comes first, then texts drawn at random: nobody waits for a model.

    Args:
        texts: position in the pool -> text, each text once.
        book: where the answers are kept.
        label_names: the classes.
        budget: labels in all.
        descriptions: of the classes, or none.
        can_add_classes: whether a person may add a class.
        shows_guess: whether the person sees what the model says.
        rng: draws the order.
    """

    def __init__(
        self,
        texts: Mapping[int, str],
        book: AnswerBook,
        label_names: Sequence[str],
        *,
        budget: int,
        rng: np.random.Generator,
        descriptions: Sequence[str] | None = None,
        can_add_classes: bool = False,
        shows_guess: bool = True,
    ) -> None:
        self.texts, self.book, self.budget = dict(texts), book, budget
        self.classes = [*label_names, *(name for name in book.added_classes if name not in label_names)]
        self.descriptions = dict(zip(label_names, descriptions or (), strict=False))
        self.can_add_classes, self.shows_guess = can_add_classes, shows_guess
        self.has_several = book.separator is not None  # classes a text
        self.stage, self.over = "loading the model", ""
        self.curve: list[dict[str, Any]] = []
        self.is_finishing = False
        self._positions = {text: position for position, text in self.texts.items()}
        self._order = rng.permutation(np.fromiter(self.texts, dtype=np.int64, count=len(self.texts))).tolist()
        self._suggested: dict[int, Suggestion] = {}
        self._seats: dict[str, _Seat] = {}
        self._reasons: dict[int, Suggestion] = {}  # of what was shown
        self._has_model = False
        self._change = threading.Condition(threading.RLock())

    # What the training asks

    def suggest(self, suggestions: Mapping[int, Suggestion], has_model: bool) -> None:
        """Ask for these texts first, in this order, in place of those suggested before."""
        with self._change:
            self._suggested, self._has_model = dict(suggestions), has_model
            self._change.notify_all()

    def wait(self, size: int, taken: frozenset[int]) -> list[int]:
        """Positions of the answered texts outside `taken`, once `size` of them have a class, the budget is spent (by a
        text inside, too), nothing is left to ask, or the person has had enough."""
        with self._change:
            while True:
                ready = self.answered(taken)
                labelled = sum(self.label_of(position) not in NO_LABEL for position in ready)
                is_spent = self._labelled() >= self.budget or not self._is_anything_left()
                if labelled >= size or is_spent or self.is_finishing:
                    return ready
                self._change.wait(0.5)  # short: a signal reaches the main thread between two waits

    def answered(self, taken: frozenset[int] = frozenset()) -> list[int]:
        """Positions of the texts that all who are asked have answered, outside `taken`, in the order of the answers."""
        with self._change:
            positions = (self._positions.get(text) for text in self.book.by_text)
            return [p for p in positions if p is not None and p not in taken and self._is_complete(p)]

    def label_of(self, position: int) -> Label:
        """What counts of a text: a class or all its classes, or a word of `NO_LABEL`."""
        with self._change:
            label = self.book.label(self.texts[position])
            return "skip" if label is None or not set(classes_of(label)) <= set(self.classes) else label

    def reason_of(self, position: int) -> Suggestion:
        """Why a text was asked for."""
        return self._reasons.get(position, Suggestion("labelled before"))

    def say(self, stage: str, curve: list[dict[str, Any]] | None = None, over: str = "") -> None:
        """What the program does now; the points of the learning curve; how it ended."""
        with self._change:
            self.stage, self.over = stage, over
            self.curve = self.curve if curve is None else curve

    def is_watched(self) -> bool:
        """Whether a browser has the page open."""
        return any(time.monotonic() - seat.last_sign < GLANCE for seat in self._seats.values())

    # What a browser asks

    def question(self, seat: str, annotator: str) -> dict[str, Any]:
        """The text that this browser has open or opens now, or why there is none: {"wait": …}.

        Raises:
            InputError: more people than are asked.
        """
        with self._change:
            self._check_annotator(annotator)
            mine = self._seat(seat)
            if mine.position is None or self._is_done_by(mine.position, annotator):
                mine.position = self._next(seat, annotator)
            if mine.position is None:
                return {"wait": self._why_none()}
            return self._shown(mine.position, annotator)

    def open(self, annotator: str, position: int) -> dict[str, Any]:
        """An answered text once more, to change what was said of it."""
        with self._change:
            if position not in self.texts:
                raise InputError(f"position: found {position}; allowed: a text of the pool")
            return self._shown(position, annotator)

    def answer(self, seat: str, annotator: str, position: int, label: Label, note: str = "") -> None:
        """Keep an answer.

        Raises:
            InputError: a label that is no class, a text that is not in the pool, more people than are asked.
        """
        with self._change:
            self._check_annotator(annotator)
            if position not in self.texts:
                raise InputError(f"position: found {position}; allowed: a text of the pool")
            try:
                (kept,) = all_of_kind([Answer(self.texts[position], label)], self.has_several)
                check_labels([kept], self.classes)
            except InputError as error:
                raise InputError(f"label: {str(error).replace('the label ', '')}") from error
            label = kept.label
            text, shown = self.texts[position], self._reasons.get(position, Suggestion(""))
            self.book.record(Answer(text, label, annotator, note, shown.guess, shown.probability, time.time()))
            mine = self._seat(seat)
            mine.answered = [earlier for earlier in mine.answered if earlier != position] + [position]
            if mine.position == position:
                mine.position = None
            self._change.notify_all()

    def undo(self, seat: str, annotator: str) -> dict[str, Any]:
        """Take this browser's last answer back, and open its text once more; nothing where there is none."""
        with self._change:
            mine = self._seat(seat)
            while mine.answered:
                position = mine.answered.pop()
                if annotator in self.book.by_text.get(self.texts[position], {}):
                    shown = self._shown(position, annotator)
                    self.book.withdraw(self.texts[position], annotator)
                    mine.position = position
                    return shown
            return self.question(seat, annotator)

    def add_class(self, name: str) -> None:
        """A class more. Raises InputError: it is there already, means no class, or this data set's are fixed."""
        with self._change:
            name = label_text(" ".join(name.split()))  # as answers, tables and the training will have it
            if not self.can_add_classes:
                raise InputError("class: the classes of this data set are fixed; allowed with dataset.label_names=[…]")
            if is_missing(name) or name in self.classes or name in NO_LABEL or len(name) > 100:
                raise InputError(f"class: found {short(name)}; allowed: a new name of 1 to 100 characters")
            if self.book.separator and self.book.separator in name:
                problem = f"class: found {short(name)} where {self.book.separator!r} stands between classes"
                raise InputError(f"{problem}; allowed: a name without it")
            if name in self.descriptions.values():
                raise InputError(f"class: found {short(name)}, which describes another; allowed: a new name")
            self.book.add_class(name)
            self.classes.append(name)

    def find(self, words: str, limit: int = 100) -> list[dict[str, Any]]:
        """Answers whose text, label or note has all the words, the last first."""
        with self._change:
            wanted = words.lower().split()
            matches = []
            for text in reversed(self.book.by_text):
                for answer in self.book.answers(text):
                    label = in_table(answer.label, None)
                    searched = f"{answer.text}\n{label}\n{answer.note}\n{answer.annotator}".lower()
                    if text in self._positions and all(word in searched for word in wanted):
                        counting = self.book.label(text)
                        counts = in_table("skip" if counting is None else counting, None)
                        matches.append({"position": self._positions[text], "text": text, "label": label,
                                        "note": answer.note, "annotator": answer.annotator,
                                        "counts": counts})  # fmt: skip
                        if len(matches) == limit:
                            return matches
            return matches

    def answers(self) -> list[Answer]:
        """All answers to texts of this pool."""
        with self._change:
            return [answer for answer in self.book.all() if answer.text in self._positions]

    def take_over(self, answers: Sequence[Answer]) -> tuple[int, int]:
        """Keep answers from elsewhere to texts that their annotator has not answered.

        Returns:
            How many were kept, and how many are to texts that the pool has not.

        Raises:
            InputError: a label that is no class; none is kept then.
        """
        with self._change:
            answers = all_of_kind(answers, self.has_several)
            check_labels(answers, self.classes)
            counts = record_new(self.book, answers, self._positions)
            self._change.notify_all()
            return counts

    def finish(self) -> None:
        """Train on what there is, and ask for no more."""
        with self._change:
            self.is_finishing = True
            self._change.notify_all()

    def leave(self, seat: str) -> None:
        """A browser was closed, or loads its page anew: others are asked its text; where it comes back it can undo."""
        with self._change:
            if seat in self._seats:
                self._seats[seat] = _Seat(last_sign=-math.inf, answered=self._seats[seat].answered)

    def state(self, seat: str) -> dict[str, Any]:
        """How far it is; asking for it is this browser's sign of life."""
        with self._change:
            self._seat(seat)
            labels = [self.label_of(position) for position in self.answered()]
            labelled = sum(label not in NO_LABEL for label in labels)
            answers = self.answers()
            speed = labels_a_minute([answer.time for answer in answers])
            named = Counter(name for label in labels for name in classes_of(label))
            counts = {name: named[name] for name in self.classes}
            return {
                "stage": self.stage,
                "over": self.over,
                "is_finishing": self.is_finishing,
                "labelled": labelled,
                "budget": self.budget,
                "left_out": len(labels) - labelled,
                "pool": len(self.texts),
                "labels_a_minute": speed,
                "minutes_left": max(self.budget - labelled, 0) / speed if speed else None,
                "guesses": agreement_with_guesses(answers),
                "annotators": sorted({answer.annotator for answer in answers}),
                "asked_of": self.book.annotators,
                "several": self.has_several,
                "kappa": kappa_of_two(answers) if self.book.annotators == 2 else None,
                "curve": self.curve,
                "classes": [{"name": name, "count": counts[name], "description": self.descriptions.get(name, "")}
                            for name in self.classes],
                "no_label": list(NO_LABEL),
                "can_add_classes": self.can_add_classes,
                "shows_guess": self.shows_guess,
            }  # fmt: skip

    def _seat(self, seat: str) -> _Seat:
        mine = self._seats.setdefault(seat, _Seat())
        mine.last_sign = time.monotonic()
        return mine

    def _check_annotator(self, annotator: str) -> None:
        if self.book.annotators == 1:
            return
        if not annotator:
            raise InputError("name: found none; allowed: a name, since several people are asked for each text")
        known = {answer.annotator for answer in self.answers()} - {""}  # which is whoever answered before names counted
        if annotator not in known and len(known) >= self.book.annotators:
            raise InputError(f"name: found {short(annotator)}; allowed: {', '.join(sorted(known))}, who have begun")

    def _is_complete(self, position: int) -> bool:
        return len(self.book.by_text.get(self.texts[position], {})) >= self.book.annotators

    def _is_done_by(self, position: int, annotator: str) -> bool:
        """Whether this person need not be asked: they have answered, or enough others have."""
        return self._is_complete(position) or (
            self.book.annotators > 1 and annotator in self.book.by_text.get(self.texts[position], {})
        )

    def _is_anything_left(self) -> bool:
        return any(not self._is_complete(position) for position in self._order)

    def _next(self, seat: str, annotator: str) -> int | None:
        """A text that nobody else has open, unless the budget is spent by what is labelled and what is open."""
        now = time.monotonic()
        others = [other.position for name, other in self._seats.items()
                  if name != seat and other.position is not None and now - other.last_sign < LEASE]  # fmt: skip
        taken = set(others)
        labelled = self._labelled()
        half = [p for p in map(self._positions.get, self.book.by_text) if p is not None and not self._is_complete(p)]
        if self.is_finishing or self.over:
            return None
        may_begin = labelled + len(taken | set(half)) < self.budget
        fresh = [*self._suggested, *self._order] if may_begin else []
        for position in [*half, *fresh]:
            if (position not in taken or position in half) and not self._is_done_by(position, annotator):
                if self.book.annotators > 1 and others.count(position) >= self._asked_of_more(position):
                    continue
                self._explain(position)
                return position
        return None

    def _labelled(self) -> int:
        """Texts whose label counts."""
        return sum(self.label_of(position) not in NO_LABEL for position in self.answered())

    def _asked_of_more(self, position: int) -> int:
        """People who are still to answer a text."""
        return self.book.annotators - len(self.book.by_text.get(self.texts[position], {}))

    def _explain(self, position: int) -> None:
        if position in self._suggested:
            self._reasons[position] = self._suggested[position]
        else:
            self._reasons.setdefault(position, Suggestion(IN_THE_MEANTIME if self._has_model else AT_RANDOM))

    def _why_none(self) -> str:
        if self.over or self.is_finishing:
            return "finished"
        if not self._is_anything_left():
            return "every text is answered"
        if self._labelled() >= self.budget:
            return "the budget is spent"
        return "the others" if self.book.annotators > 1 else "open elsewhere"

    def _shown(self, position: int, annotator: str) -> dict[str, Any]:
        shown, said = self.reason_of(position), self.book.by_text.get(self.texts[position], {}).get(annotator)
        content: dict[str, Any] = {
            "position": position,
            "text": self.texts[position],
            "reason": shown.reason,
            "neighbours": [{"text": text, "label": label, "similarity": s} for text, label, s in shown.neighbours],
            "label": said.label if said else None,
            "note": said.note if said else "",
        }
        if self.shows_guess:
            content |= {"guess": shown.guess, "probability": shown.probability}
        return content


def labels_a_minute(times: Sequence[float]) -> float | None:
    """Answers a minute among the last ones, pauses left out; `times` in seconds, 0 where it is not known."""
    known = sorted(moment for moment in times if moment)[-RECENT:]
    gaps = [b - a for a, b in zip(known, known[1:], strict=False) if b - a < PAUSE]
    return 60 * len(gaps) / sum(gaps) if gaps and sum(gaps) > 0 else None


def agreement_with_guesses(answers: Sequence[Answer]) -> dict[str, int]:
    """Of how many answers with a class the model had made a guess before, and of how many of these the same one."""
    guessed = [answer for answer in answers if answer.guess is not None and answer.label not in NO_LABEL]
    return {"same": sum(answer.guess == answer.label for answer in guessed), "of": len(guessed)}


def kappa_of_two(answers: Sequence[Answer]) -> dict[str, Any]:
    """Cohen's kappa over the texts that both annotators answered, where texts have several classes over each text and
    class (does it apply?). A word of `NO_LABEL` agrees with nothing but itself. None where chance alone would make them
    agree always, as with a single label. Answers without a name are left out, and where some were brought in under
    other names, those two count who share the most texts."""
    from sklearn.metrics import cohen_kappa_score

    by_text: dict[str, dict[str, Label]] = {}
    for answer in answers:
        by_text.setdefault(answer.text, {})[answer.annotator] = answer.label
    by_names: dict[tuple[str, ...], list[tuple[Label, ...]]] = {}
    for said in by_text.values():
        if len(said) == 2 and "" not in said:
            names = tuple(sorted(said))
            by_names.setdefault(names, []).append(tuple(said[name] for name in names))
    pairs = max(by_names.values(), key=len, default=[])
    compared: list[tuple[Any, ...]] = pairs
    if any(isinstance(label, tuple) for pair in pairs for label in pair):
        classes = sorted({name for pair in pairs for label in pair for name in classes_of(label)})
        compared = [tuple(label if isinstance(label, str) else str(name in label) for label in pair)
                    for pair in pairs for name in classes]  # fmt: skip
    is_defined = len({label for pair in compared for label in pair}) > 1
    value = float(cohen_kappa_score(*zip(*compared, strict=True))) if is_defined else None
    return {"value": value, "texts": len(pairs), "same": sum(first == second for first, second in pairs)}
