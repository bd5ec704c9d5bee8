"""What of a run's config makes it another run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Left out: where files lie, what is shown, what is asked of the run, and on which device it works.
UNHASHED_TOP = frozenset(
    {
        *("paths", "logger", "task", "force", "hydra", "run", "input", "output", "search", "chat", "cluster"),
        *("text_column", "label_column", "encoding", "explain", "add", "minutes", "methods", "prefer", "precision"),
        *("format", "quantize", "host", "port", "probabilities", "rival", "markup", "unlabelled"),
        *("label_separator", "header", "delimiter", "sheet", "missing", "sure", "class_descriptions", "test"),
    }
)
UNHASHED_TRAINER = frozenset(
    {
        *("accelerator", "devices", "num_nodes", "strategy", "log_every_n_steps", "enable_progress_bar"),
        *("enable_model_summary", "enable_checkpointing", "default_root_dir", "plugins"),
    }
)
UNHASHED_CALLBACKS = frozenset({"progress", "history", "predictions", "timing", "nan_guard", "time_limit"})
UNHASHED_ACTIVE = frozenset({"host", "port", "show_guess", "answers", "answers_from"})  # how a person is asked
UNHASHED_ANYWHERE = frozenset({"num_workers", "num_threads", "pin_memory", "persistent_workers", "every_seconds"})
UNHASHED_OF = {"trainer": UNHASHED_TRAINER, "callbacks": UNHASHED_CALLBACKS, "active": UNHASHED_ACTIVE}


def relevant(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config without what is left out of a run's identity; a group or callback that is null counts as absent."""
    kept = {key: value for key, value in config.items() if key not in UNHASHED_TOP and value is not None}
    for group, unhashed in UNHASHED_OF.items():
        if isinstance(kept.get(group), Mapping):
            kept[group] = {key: value for key, value in kept[group].items() if key not in unhashed}
    kept["callbacks"] = {key: value for key, value in kept.get("callbacks", {}).items() if value is not None}
    return kept
