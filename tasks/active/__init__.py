"""Active learning: rounds of query, label, train, evaluate. `active=NAME` beside any method, data set and encoder."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from omegaconf import DictConfig


def active(config: DictConfig, overrides: list[str]) -> Path:
    """Do the rounds that `config.active` describes, and report the learning curve; returns the folder.

    Every round is a run of its own in the run store, with the labelled rows in its config; the state of the rounds is
    written after each query. Typed again after a stop, the same texts are chosen and the same curve comes out. A person
    who labels is asked before PyTorch is loaded, unless names choose the first texts.

    Raises:
        ValueError: a protocol that would use labels nobody paid for, or an oracle that waits for a person.
    """
    from tasks.active.people import ORACLES, options_of  # light, as all that they ask for is

    with ExitStack() as stack:
        oracle = ORACLES.get(str(options_of(config).get("oracle")))  # any other value is the plan's to refuse
        people = stack.enter_context(oracle(config)) if oracle else None
        if people:
            people.begin()
        from tasks.active.rounds import learn

        return learn(config, overrides, people)
