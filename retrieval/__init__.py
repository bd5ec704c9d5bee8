"""Nearest neighbours among labelled texts: a datastore on disk, search, and the vote of the neighbours."""

from retrieval.datastore import Datastore
from retrieval.search import Index, recall
from retrieval.vote import best_vote, interpolate, neighbour_weights, shared_label_share, vote

__all__ = [
    "Datastore",
    "Index",
    "best_vote",
    "interpolate",
    "neighbour_weights",
    "recall",
    "shared_label_share",
    "vote",
]
