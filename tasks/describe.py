"""Describe a data set: its card and a picture of its label distribution."""

from __future__ import annotations

from pathlib import Path

from omegaconf import DictConfig

from datamodules.cards import describe as write_card
from engine.plan import Plan


def describe(config: DictConfig, overrides: list[str]) -> Path:
    """Print the card of `dataset` and write it, with the picture, below the prepared data; returns that folder."""
    corpus = Plan.make(config).corpus()
    return write_card(corpus, corpus.folder / "card")
