"""What an active-learning run is: a strategy, how many texts a round, and when it ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from active_learning.selection import Strategy, needed_by


@dataclass(frozen=True)
class ActiveLearning:
    """Rounds of query, label, train, evaluate.

    Args:
        name: of the strategy, in run ids and tables.
        strategy: partial of a function of `active_learning.strategies`.
        query_size: labels a round; a list: of each round in turn, its last number for all that follow.
        budget: labels in all, those for validation included.
        seed_rounds: first rounds that are drawn at random; every strategy also knows how to begin by itself.
        cold_start: what stands for the model's classes before there is a model, in a strategy that asks class by class:
            `names`, EM from the names of the classes over the pretrained embeddings; null: nothing.
        mc_passes: passes with dropout on, for strategies that ask for them.
        reset_weights: whether every round starts from the pretrained weights; else from those of the round before.
        validation_size: labelled rows that choose the epoch, in every round and charged to the budget; null: a share
            of those there are, `protocol.val_fraction`.
        keep_weights: of `all` rounds, or of the `last` alone, which is all that the next query takes.
        oracle: `labels` answers from the data set; `file` writes the texts to a CSV and waits for a person;
            `prompt` asks the person in the terminal, `browser` on a page.
        show_guess: whether the person sees the model's class of a text.
        annotators: people who are asked for each text; what they do not agree on is no label.
        answers: file of what people said, for all runs on the same texts; null: in the run store.
        answers_from: file of labels to begin with, see `labelling.formats`.
        host, port: where the page listens; port 0: a free one.
    """

    kinds: ClassVar[tuple[str, ...]] = ("text",)  # of data: people are asked

    name: str
    strategy: Strategy
    query_size: int | list[int] = 10
    budget: Annotated[int, ">= 1"] = 100
    seed_rounds: Annotated[int, ">= 0"] = 0
    cold_start: Literal["names"] | None = None
    mc_passes: Annotated[int, ">= 2"] = 10
    reset_weights: bool = True
    validation_size: Annotated[int, ">= 1"] | None = None
    keep_weights: Literal["last", "all"] = "last"
    oracle: Literal["labels", "file", "prompt", "browser"] = "labels"
    show_guess: Annotated[bool, "with oracle=prompt|browser"] = True
    annotators: Annotated[int, ">= 1", "<= 2", "with oracle=browser"] = 1
    answers: Annotated[str, "with oracle=file|prompt|browser"] | None = None
    answers_from: Annotated[str, "with oracle=file|prompt|browser"] | None = None
    host: Annotated[str, "with oracle=browser"] = "127.0.0.1"
    port: Annotated[int, ">= 0", "<= 65535", "with oracle=browser"] = 0

    def __post_init__(self) -> None:
        sizes = [self.query_size] if isinstance(self.query_size, int) else list(self.query_size)
        if not sizes or not all(isinstance(size, int) and 1 <= size <= self.budget for size in sizes):
            raise ValueError(
                f"active.query_size: found {self.query_size}; allowed: a number or a list of numbers, "
                f"each from 1 up to active.budget={self.budget}"
            )
        if self.validation_size is not None and self.validation_size > sizes[0] - 2:
            raise ValueError(
                f"active.validation_size: found {self.validation_size}; allowed: up to active.query_size - 2 = "
                f"{sizes[0] - 2}, for two at least train in the first round"
            )
        if self.cold_start and "guesses" not in needed_by(self.strategy):
            raise ValueError(f"active.cold_start: found names, which active={self.name} would not read; allowed with "
                             "it: null (active=class_balanced reads them)")  # fmt: skip
        if self.cold_start and self.seed_rounds:
            raise ValueError(f"active.cold_start: found names, which active.seed_rounds={self.seed_rounds} would not "
                             "read; allowed: null, or active.seed_rounds=0")  # fmt: skip

    def size_of(self, number: int) -> int:
        """Labels that round `number` (0, 1, …) asks for."""
        if isinstance(self.query_size, int):
            return self.query_size
        return self.query_size[min(number, len(self.query_size) - 1)]
