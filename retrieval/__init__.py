"""Nearest neighbours among labelled texts: a datastore on disk, search, and the vote of the neighbours."""

from retrieval.datastore import Datastore
from retrieval.knn import NearestNeighbours, Vote
from retrieval.search import Index, exact_search, recall
from retrieval.vote import best_vote, interpolate, neighbour_weights, shared_label_share, vote

__all__ = [
    "Datastore",
    "Index",
    "NearestNeighbours",
    "Vote",
    "best_vote",
    "exact_search",
    "interpolate",
    "neighbour_weights",
    "recall",
    "shared_label_share",
    "vote",
]
