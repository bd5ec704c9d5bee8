"""What the folder of an answer says of its question: how far it is answered. Needs no torch."""

from __future__ import annotations

from typing import Any

from omegaconf import DictConfig

from storage.run_store import QUESTION, RunFolder

OF_REPORT = ("prefer", "precision")  # keys that nothing reads before all candidates are compared


def compared(folder: RunFolder, minutes: float) -> dict[str, Any] | None:
    """The question, where all its candidates are compared within so many minutes or more: the report and the fit on
    all rows are left. None where they are not; an earlier version did not say when they were."""
    question = folder.read_json(QUESTION) if folder.has(QUESTION) else {}
    return question if question.get("compared_minutes") and question["minutes"] >= minutes else None


def is_answered(folder: RunFolder, config: DictConfig) -> bool:
    """Whether it is, with the same wishes, within so many minutes or more."""
    if folder.read_metrics().get("status") != "finished" or not folder.has(QUESTION):
        return False
    question = folder.read_json(QUESTION)
    return question.get("minutes", 0) >= config.minutes and all(question.get(key) == config[key] for key in OF_REPORT)
