"""What `benchmarks.auto_choice` counts of the recommended candidate."""

from collections import defaultdict

import numpy as np
import pandas as pd

from benchmarks import auto_choice


def test_what_is_counted_of_the_recommended_candidate_is_of_the_default_preference(monkeypatch):
    def rank(entries, out_of_fold, prefer, seed):
        """`logistic`, whose interval holds everything, by quality; `bayes`, whose interval holds nothing, by speed."""
        rows = [(name, name == {"quality": "logistic", "speed": "bayes"}[prefer]) for name in out_of_fold]
        table = pd.DataFrame(rows, columns=["candidate", "recommended"])
        lower = np.where(table["candidate"] == "bayes", 2.0, 0.0)
        return table.assign(macro_f1_lower=lower, macro_f1_upper=3.0, accuracy_lower=0.0, accuracy_upper=1.0)

    monkeypatch.setattr(auto_choice, "rank", rank)
    monkeypatch.setattr(auto_choice, "TEST", 200)
    monkeypatch.setattr(auto_choice, "is_worse", lambda *_: False)
    counts = defaultdict(list)
    auto_choice.trial(auto_choice.World(100, np.random.default_rng(0)), 100, 0, counts)
    assert counts["recommended: macro-F1 covered"] == [True]
