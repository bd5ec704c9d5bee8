"""Errors of Hydra and OmegaConf over a command line, in one line each."""

from __future__ import annotations

import re
import traceback
from collections.abc import Sequence
from pathlib import Path

from engine.allowed_targets import CONF
from storage.command_words import in_shell_quotes, quoted
from storage.errors import nearest


def explain(error: Exception, words: Sequence[str]) -> str:
    """One line for an error of Hydra or OmegaConf over these words: the key, what was found, what is allowed."""
    from hydra.errors import InstantiationException, OverrideParseException
    from omegaconf import MissingMandatoryValue

    text = str(error).strip()
    if isinstance(error, InstantiationException) and isinstance(error.__cause__, ValueError):
        return str(error.__cause__)
    if isinstance(error, InstantiationException) and (match := re.search(r"full_key: (\S+)", text)):
        return f"{match[1]}: {error.__cause__ or text.splitlines()[0]}; allowed: what its _target_ takes"
    if isinstance(error, OverrideParseException):
        key, mark, value = error.override.partition("=")
        literally = in_shell_quotes(f"{key}={quoted(value)}")
        hint = f"; what is no plain word or number needs two kinds of quotes: {literally}" if mark else ""
        return f"{error.override}: not of the form key=value{hint}"
    if isinstance(error, MissingMandatoryValue) and error.full_key:
        return f"{error.full_key}: missing; allowed: {error.full_key}=VALUE"
    if getattr(error, "options", None) is not None or "Available options in" in text:
        return _unknown_choice(error, text)
    if match := re.search(r"resolving interpolation '([^']+)', possible interpolation keys: (.*)", text):
        chosen = match.group(2).split(", ")
        group = next(name for name in re.findall(r"\{(\w+)\}", match.group(1)) if name not in chosen)
        return f"{group}: found null; allowed: {', '.join(sorted(file.stem for file in (CONF / group).glob('*.yaml')))}"
    if word := next((word for word in words if "${" in word and "nterpolation" in text), None):
        reason = re.sub(r"^\w+ raised while resolving interpolation: ", "", text.splitlines()[0])
        return f"{word}: {reason}; allowed: a value, or ${{KEY}} of a key that there is"
    if match := re.search(r"Ambiguous value for argument '([^']+)'", text):
        return f"{match.group(1)}: found several values; allowed: one, or a sweep over them with -m"
    for pattern in (r"Could not override '([^']+)'", r"Key '[^']+' is not in struct\s+full_key: (\S+)"):
        if match := re.search(pattern, text):
            return _unknown_key(match.group(1), words)
    if match := re.search(r"Could not append to config\. An item is already at '([^']+)'", text):
        return f"+{match.group(1)}: the key exists already; write {match.group(1)}=… without the plus"
    return " ".join(line.strip() for line in text.splitlines() if line.strip())


def _unknown_choice(error: Exception, text: str) -> str:
    missing = getattr(error, "missing_cfg_file", None) or re.findall(r"Could not find '([^']+)'", text)[0]
    options = getattr(error, "options", None)
    if options is None:
        options = re.findall(r"^\t(\S+)$", text, re.MULTILINE)
    group, _, choice = str(missing).removesuffix(".yaml").rpartition("/")
    return f"{group}={choice}: unknown choice; allowed: {', '.join(sorted(options))}{nearest(choice, options)}"


def _unknown_key(key: str, words: Sequence[str]) -> str:
    parent, _, name = key.rpartition(".")
    keys = _keys_under(parent, words)
    where = f"under {parent}" if parent else "at the top"
    if keys is None and key.startswith("hydra."):
        return f"{key}: unknown key of Hydra itself; allowed: see python run.py --hydra-help"
    if keys is None:
        return f"{key}: unknown key; there is no group {parent!r} in this config"
    if not keys:
        return f"{key}: unknown key; {parent} is null here; allowed: {parent}=NAME first"
    return f"{key}: unknown key; allowed {where}: {', '.join(keys)}{nearest(name, keys)}"


def _keys_under(parent: str, words: Sequence[str]) -> list[str] | None:
    """The keys of a node in the config as composed from the group choices among the words alone."""
    from hydra.errors import HydraException
    from omegaconf import DictConfig, OmegaConf

    from engine.identify import compose_config

    plain = [word for word in words if re.fullmatch(r"\w+=\w+|~\w+", word)]
    choices = [word for word in plain if (CONF / word.lstrip("~").split("=")[0]).is_dir()]
    try:
        config = compose_config(choices)
        node = OmegaConf.select(config, parent) if parent else config
    except (HydraException, ValueError):
        return None
    if node is None and (CONF / parent).is_dir():
        return []
    return [str(key) for key in node if key != "_target_"] if isinstance(node, DictConfig) else None


def is_of_composing(error: Exception) -> bool:
    """Whether Hydra stumbled over the command line itself, before it called anything of ours."""
    frames = traceback.extract_tb(error.__traceback__)
    return "hydra" in Path(frames[-1].filename).parts and not {"run_job", "run_task"} & {frame.name for frame in frames}


def first_unreadable(words: Sequence[str]) -> str:
    """The first of the words of a command line with which it cannot be composed."""
    from engine.identify import compose_config

    words = [word for word in words if word[0] != "-"]
    for number, word in enumerate(words, 1):
        try:
            compose_config(words[:number])
        except Exception:
            return word
    return " ".join(words)
