"""What a query strategy may ask for by name, described in `selection`. Needs no numpy: every command reads it."""

from __future__ import annotations

INPUTS = frozenset(
    ["probabilities", "mc_probabilities", "embeddings", "guesses", "unlabelled", "labelled", "labels", "num_classes"]
    + ["num_labels", "query_size", "rng"]
)
