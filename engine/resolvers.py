"""What a value of `conf/` may ask of the rest of the config."""

from __future__ import annotations

import os
from typing import Any

from omegaconf import DictConfig, OmegaConf


def if_frozen(frozen: Any, otherwise: Any, *, _root_: DictConfig) -> Any:
    """`${if_frozen:A,B}`: A where the encoder is frozen, so that heads train alone, else B."""
    encoder = _root_.get("encoder")
    return frozen if encoder and encoder.get("train") == "frozen" else otherwise


def home(path: Any) -> str:
    """`${home:PATH}`: the path, `~` at its beginning as the home folder."""
    return os.path.expanduser(str(path))


def register() -> None:
    """Make the resolvers of this module known to OmegaConf."""
    OmegaConf.register_new_resolver("if_frozen", if_frozen, replace=True)
    OmegaConf.register_new_resolver("home", home, replace=True)
