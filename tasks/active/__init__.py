"""Active learning: rounds of query, label, train, evaluate. `active=NAME` beside any method, data set and encoder."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from storage.errors import ReportError
from storage.run_store import RunFolder
from storage.settings import relevant


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
        people = stack.enter_context(oracle(config)) if oracle and not _is_finished(config, overrides) else None
        if people:
            people.begin()
        from tasks.active.rounds import learn

        return learn(config, overrides, people)


def _is_finished(config: DictConfig, overrides: list[str]) -> bool:
    """Whether the run store holds this curve finished, so that nobody is asked; PyTorch is loaded only where a finished
    one has these settings, for other files may stand behind them."""
    plain: Any = OmegaConf.to_container(config, resolve=True)
    curves = [RunFolder(file.parent) for file in Path(config.paths.runs).glob("*/state.json")]
    if config.force or not any(_may_be(curve, relevant(plain)) for curve in curves):
        return False
    from engine.identity import run_id
    from engine.plan import Plan

    plan = Plan.make(config, overrides)
    return RunFolder(Path(config.paths.runs) / run_id(plan.plain, plan.inputs())).status == "finished"


def _may_be(curve: RunFolder, settings: Mapping[str, Any]) -> bool:
    """Whether it is finished and has these settings; one that is damaged is not what is asked for."""
    with suppress(ReportError):
        return curve.status == "finished" and _is_part_of(settings, curve.read_config())
    return False


def _is_part_of(part: Any, whole: Any) -> bool:
    """Whether a config says all that another says, which may say more."""
    if isinstance(part, Mapping):
        return isinstance(whole, Mapping) and all(_is_part_of(item, whole.get(key)) for key, item in part.items())
    return bool(part == whole)
