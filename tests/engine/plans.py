"""Plans of command lines, as far as a config goes without data."""

from collections.abc import Sequence
from typing import Any

from hydra.utils import get_object
from omegaconf import DictConfig, OmegaConf

from engine.identify import compose_config
from engine.overrides import without_null_groups
from engine.plan import Plan
from engine.validation import ConfigError, signature


def composed(*overrides: str) -> DictConfig:
    """The config of a command line."""
    return compose_config(overrides)


def plain(*overrides: str) -> dict:
    """The config of a command line as plain values."""
    return OmegaConf.to_container(composed(*overrides), resolve=True)


def findings(line: str) -> list[str]:
    """What a command line is refused for, a finding each; none where it gives a plan."""
    return refused(composed(*line.split()), without_null_groups(line.split()))


def refused(config: DictConfig, words: Sequence[str] = ()) -> list[str]:
    """What a config is refused for, a finding each; none where it gives a plan."""
    try:
        Plan.make(config, words)
    except ConfigError as error:
        return str(error).splitlines()
    return []


def without_defaults(node: Any) -> Any:
    """A config without the lines that say what the signatures do, as they may be deleted from the files."""
    if not isinstance(node, dict):
        return node
    parameters = signature(get_object(node["_target_"]))[0] if "_target_" in node else {}
    defaults = {key: parameter.default for key, parameter in parameters.items()}
    own = {key: value for key, value in node.items() if key not in defaults or value != defaults[key]}
    return {key: without_defaults(value) for key, value in own.items()}


def bare(config: DictConfig) -> DictConfig:
    """The config as Hydra composes it from files without those lines: struct."""
    config = OmegaConf.create(without_defaults(OmegaConf.to_container(config, resolve=True)))
    OmegaConf.set_struct(config, True)
    return config
