"""What a finished run learned from besides labelled texts."""

from __future__ import annotations

from engine.composition import target_class
from engine.identity import relocated
from engine.validation import check_targets
from storage.records import Run


def information_of(run: Run) -> str:
    """Its marks, "N" for the names of the classes and "U" for texts without a label.

    Of a run from before they were kept: what its method and its head read whatever their options.
    """
    if (kept := run.read_metrics().get("reads")) is not None:
        return kept
    config = run.read_config()
    parts = relocated({group: config[group] for group in ("method", "head") if config.get(group)})
    check_targets(parts)  # before anything that it names is imported
    return "N" if any(getattr(target_class(node), "reads_names", False) for node in parts.values()) else ""
