"""Plans of command lines, as far as a config goes without data."""

from collections.abc import Sequence
from pathlib import Path

from hydra import compose, initialize_config_dir
from omegaconf import DictConfig, OmegaConf

from engine.command_line import without_null_groups
from engine.plan import Plan
from engine.validation import ConfigError

CONF = Path(__file__).resolve().parents[2] / "conf"


def composed(*overrides: str) -> DictConfig:
    """The config of a command line."""
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return compose("config", overrides=without_null_groups(list(overrides)))


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
