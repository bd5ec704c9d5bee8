"""Query strategies, one family a file. `active_learning.selection` says what they take and give."""

from active_learning.strategies.clusters import clun, kmeans, rep, rep_clun, unrep
from active_learning.strategies.uncertainty import bald, entropy, least_confidence, margin
from active_learning.strategies.uniform import random

__all__ = [
    "bald",
    "clun",
    "entropy",
    "kmeans",
    "least_confidence",
    "margin",
    "random",
    "rep",
    "rep_clun",
    "unrep",
]
