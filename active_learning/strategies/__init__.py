"""Query strategies, one family a file. `active_learning.selection` says what they take and give."""

from active_learning.strategies.clusters import clun, kmeans, rep, rep_clun, unrep
from active_learning.strategies.contrastive import cal
from active_learning.strategies.coverage import probcover, typiclust
from active_learning.strategies.discriminator import discriminative
from active_learning.strategies.gradient_embedding import badge
from active_learning.strategies.k_centre import coreset
from active_learning.strategies.uncertainty import bald, entropy, least_confidence, margin
from active_learning.strategies.uniform import random
from active_learning.strategies.wrappers import class_balanced, subsample

__all__ = [
    "badge",
    "bald",
    "cal",
    "class_balanced",
    "clun",
    "coreset",
    "discriminative",
    "entropy",
    "kmeans",
    "least_confidence",
    "margin",
    "probcover",
    "random",
    "rep",
    "rep_clun",
    "subsample",
    "typiclust",
    "unrep",
]
