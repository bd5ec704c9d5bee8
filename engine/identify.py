"""From overrides to the id of the run that they name, without starting anything (and without torch)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from engine.allowed_targets import CONF
from engine.hydra_errors import explain
from engine.identity import run_id
from engine.overrides import without_null_groups
from storage.errors import ReportError

if TYPE_CHECKING:
    from omegaconf import DictConfig


@dataclass(frozen=True)
class ComposedRun:
    """The run that overrides name: its resolved config, or why the overrides do not compose."""

    config: Mapping[str, Any]
    problem: str | None = None

    def id(self, seed: int) -> str:
        """Id with this seed, which no other key of a config depends on."""
        return run_id({**self.config, "seed": seed})


def expand_home(config: DictConfig) -> None:
    """In `paths.runs=~/runs` the shell leaves it to us to say where that is."""
    for name, path in (config.get("paths") or {}).items():
        if isinstance(path, str):
            config.paths[name] = os.path.expanduser(path)


def compose_config(overrides: Sequence[str]) -> DictConfig:
    """The config of these overrides. Raises HydraException: they do not compose."""
    from hydra import compose, initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra

    GlobalHydra.instance().clear()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        config = compose("config", overrides=without_null_groups(list(overrides)))
    expand_home(config)
    return config


def compose_typed(overrides: Sequence[str]) -> DictConfig:
    """`compose_config` of words that a person typed. Raises ReportError: why they do not compose, in one line."""
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    try:
        return compose_config(overrides)
    except (HydraException, OmegaConfBaseException) as error:
        raise ReportError(explain(error, overrides)) from error


@cache
def compose_run(overrides: tuple[str, ...]) -> ComposedRun:
    """The run of these overrides; content outside the config (own files, own weights) does not enter its id."""
    from hydra.errors import HydraException
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    try:
        config = compose_config(overrides)
        return ComposedRun(OmegaConf.to_container(config, resolve=True, throw_on_missing=True))  # type: ignore[arg-type]
    except (HydraException, OmegaConfBaseException) as error:
        return ComposedRun({}, explain(error, overrides))
