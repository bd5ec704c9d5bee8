"""Counts of the built-in data sets as small files, for the papers' tables of data sets and for estimates of time.

python -m papers.dataset_facts FOLDER [NAME …] [paths.data=… paths.source_mirror=…]
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reporting.arguments import run_command, words_and_pairs
from storage.files import write_text

CLUSTERED = ("agnews8000", "searchsnippets", "stackoverflow", "googlenews_ts", "googlenews_t", "googlenews_s", "tweet")
NAMES = ("r52", "ohsumed", "trec", "dblp", "biomedical", "cr", "agnews", "reuters21578", "goemotions", *CLUSTERED)
VAL_FRACTION = 0.1  # of protocol=clean


def dataset_facts(corpus: Any) -> dict[str, Any]:
    """``train``, ``test`` rows; ``word``: different lower-case words of both; ``avg_len``: words a text over both;
    ``class``; ``ir``: largest to smallest class of train; ``class_counts`` of train; ``instances``, the rows of all
    splits, with their ``instances_ir`` or, where texts have several labels, their ``cardinality``, labels a text."""
    words: set[str] = set()
    length = rows = 0
    for split in ("train", "test"):
        for text in corpus.table(split)["text"].to_pylist():
            parts = text.lower().split()
            words.update(parts)
            length, rows = length + len(parts), rows + 1
    splits = corpus.card["splits"]
    train, instances = splits["train"], sum(split["rows"] for split in splits.values())
    counts = sum((Counter(split["class_counts"]) for split in splits.values()), Counter())
    if corpus.multilabel:
        overall = {"cardinality": round(counts.total() / instances, 2)}
    else:
        overall = {"instances_ir": round(max(counts.values()) / min(counts.values()), 2)}
    return overall | {
        "instances": instances,
        "train": train["rows"],
        "test": splits["test"]["rows"],
        "word": len(words),
        "avg_len": round(length / rows, 2),
        "class": corpus.card["classes"],
        "ir": train["ir"],
        "class_counts": train["class_counts"],
        "fingerprint": corpus.fingerprint,
    }


def write_facts(folder: Path, names: Sequence[str], overrides: Sequence[str]) -> None:
    """One JSON file a data set."""
    from engine.identify import compose_typed
    from engine.plan import Plan

    for name in names:
        facts = dataset_facts(Plan.make(compose_typed([f"dataset={name}", "method=ce", *overrides])).corpus())
        write_text(folder / f"{name}.json", json.dumps(facts, indent=1, ensure_ascii=False) + "\n")
        print(f"{name}: {facts['train']} + {facts['test']} rows, {facts['class']} classes")


def train_rows(folder: Path, ratios: Sequence[float | None]) -> dict[tuple[str, str], int]:
    """Rows that train under protocol=clean, by (data set, ir), from the files that `write_facts` left."""
    import numpy as np

    from datamodules.imbalance import Exponential

    rows = {}
    for file in folder.glob("*.json"):
        counts = json.loads(file.read_text())["class_counts"]
        sizes = np.array([(1 - VAL_FRACTION) * count for count in counts.values()]).round().astype(int)
        for ir in ratios:
            rows[file.stem, str(ir)] = int(Exponential(ir).target_sizes(sizes, list(counts)).sum())
    return rows


def main(arguments: Sequence[str]) -> None:
    (target, *names), overrides = words_and_pairs(arguments)
    write_facts(Path(target), names or NAMES, overrides)


if __name__ == "__main__":
    run_command(main, __doc__)
