"""Describe a data set: its card and a picture of its label distribution."""

from __future__ import annotations

from pathlib import Path

from omegaconf import DictConfig

from datamodules.cards import cooccurrence
from datamodules.corpus import Corpus
from datamodules.labels import label_array
from engine.plan import Plan
from reporting.data_card import write_card


def describe(config: DictConfig, overrides: list[str]) -> Path:
    """Print the card of `dataset` and write it, with the picture, below the prepared data; returns that folder."""
    corpus = Plan.make(config).corpus()
    return write_corpus_card(corpus, corpus.folder / "card")


def write_corpus_card(corpus: Corpus, folder: Path) -> Path:
    """The card of a prepared data set, into `folder`; where texts have several labels, with how they occur together."""
    together = None
    if corpus.multilabel:
        together = cooccurrence(label_array(corpus.table("train"), len(corpus.label_names)))
    return write_card(corpus.card, folder, together)
