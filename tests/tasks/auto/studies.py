"""Parts of a study that encodes nothing."""

from types import SimpleNamespace
from typing import Any

import numpy as np


def embeddings_of(number: int, seconds: float) -> Any:
    """Of so many texts, each encoded in so many seconds."""
    rows, counts = np.empty((number, 2)), np.empty((number, 0))
    of_texts = {"rows": rows, "counts": counts, "unlabelled": [], "names": None, "encoder": "minilm", "blocks": 6}
    return SimpleNamespace(seconds_per_text=seconds, size_mib=1.0, **of_texts)
