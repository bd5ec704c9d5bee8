"""Golden cases and small batches for the losses."""

import json
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "sharprecl.json"


@pytest.fixture(scope="session")
def golden():
    """golden(id) -> the case {"inputs", "expected", ...}."""
    cases = {case["id"]: case for case in json.loads(GOLDEN.read_text(encoding="utf-8"))["cases"]}
    return cases.__getitem__


@pytest.fixture
def unit():
    """unit(rows) -> float64 rows of norm 1."""
    return lambda rows: F.normalize(torch.tensor(rows, dtype=torch.float64), dim=-1)


@pytest.fixture
def batch():
    """batch(size, classes, dimension, seed) -> unit float64 embeddings with gradient and long-tailed labels."""

    def make(size, classes=3, dimension=4, seed=0, dtype=torch.float64):
        generator = torch.Generator().manual_seed(seed)
        z = F.normalize(torch.randn(size, dimension, generator=generator, dtype=dtype), dim=1)
        share = 1 / torch.arange(1, classes + 1, dtype=torch.float64)
        return z.requires_grad_(), torch.multinomial(share, size, replacement=True, generator=generator)

    return make
