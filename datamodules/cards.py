"""Data cards: what a prepared data set holds, counted."""

import hashlib
from array import array
from typing import TYPE_CHECKING, Any

import numpy as np

from datamodules.labels import class_counts, label_array, without_label
from storage.tables import composed

if TYPE_CHECKING:
    import pyarrow as pa

    from datamodules.corpus import Corpus


def card(corpus: "Corpus") -> dict[str, Any]:
    """Facts and statistics of a data set.

    Returns:
        ``name``, ``fingerprint``, ``classes``, ``label_names``, the facts of its builder (``licence``, ``origin``,
        ``sources``, ``paper``, ``differences``, ``split_rule``, ``deduplicate``, ``removed``), and ``splits``: for each
        split ``rows``; ``classes`` that occur; ``class_counts`` by name; ``largest`` and ``smallest`` class and their
        ratio ``ir`` (0 where no row has a label); of rows without a label the number ``unlabelled``; ``words`` (mean,
        median, p95, max of whitespace-separated words); ``duplicates`` (rows whose text came before in the split);
        ``conflicting_texts`` (texts with several labels); for ``val`` and ``test``
        ``leaks_exact`` (rows whose text is in train) and ``leaks_folded`` (the same, letter case and white space
        aside); where texts are augmented ``augmented`` (rows) and ``augmented_changed`` (share of those that differ);
        where texts have several labels ``cardinality`` (labels a row), ``density`` (the same as a share of all
        labels), ``label_sets`` (different ones) and ``without_label`` (rows). A conflict is then of label sets.
        Of other data than texts there are no ``words`` and no ``leaks_folded``; where files are named, duplicates and
        leaks are of their names.
    """
    splits: dict[str, dict[str, Any]] = {}
    train: tuple[np.ndarray, np.ndarray] | None = None
    for split in corpus.splits:
        table = corpus.table(split)
        exact, folded, words = digests(table)
        labels = label_array(table, len(corpus.label_names))
        counts = class_counts(labels, len(corpus.label_names))
        several = {}
        labelled = ~without_label(table)
        if corpus.multilabel:
            several = _label_sets(labels[labelled])
            labels = np.unique(np.packbits(labels, axis=1), axis=0, return_inverse=True)[1]
        present = counts[counts > 0] if counts.any() else np.zeros(1)
        splits[split] = facts = {
            "rows": len(table),
            "classes": int((counts > 0).sum()),
            "largest": int(present.max()),
            "smallest": int(present.min()),
            "ir": round(float(present.max() / max(present.min(), 1)), 2),
            **several,
            **({} if words is None else {"words": _lengths(words)}),
            "duplicates": len(exact) - len(np.unique(exact)),
            "conflicting_texts": _conflicts(exact[labelled], labels[labelled]),
        }
        if not labelled.all():
            facts["unlabelled"] = int((~labelled).sum())
        if train is None:
            train = exact, folded
        else:
            facts["leaks_exact"] = int(np.isin(exact, train[0]).sum())
            if words is not None:
                facts["leaks_folded"] = int(np.isin(folded, train[1]).sum())
        if "aug" in table.column_names:
            facts |= _augmentation(table)
        facts["class_counts"] = dict(zip(corpus.label_names, counts.tolist(), strict=True))
    return {
        "name": corpus.name,
        "fingerprint": corpus.fingerprint,
        "classes": len(corpus.label_names),
        **corpus.meta["about"],
        "splits": splits,
    }


def _label_sets(labels: np.ndarray) -> dict[str, Any]:
    """Statistics of labels (N, C) of 0 and 1."""
    sizes = labels.sum(axis=1, dtype=np.int64)
    return {
        "cardinality": round(float(sizes.mean()), 3),
        "density": round(float(sizes.mean()) / labels.shape[1], 5),
        "label_sets": len(np.unique(np.packbits(labels, axis=1), axis=0)),
        "without_label": int((sizes == 0).sum()),
    }


def contents(table: "pa.Table") -> "pa.ChunkedArray":
    """The inputs of a table, its first column: texts, or what another kind of data has in their place."""
    return table.column(0)


def digests(table: "pa.Table") -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """64-bit digests of the inputs, and of texts as `storage.tables.folded` writes them; their lengths in words: (N,).

    Of what is no text the second is the first, and there are no lengths. Two of a million different inputs share a
    digest with probability 3e-8.
    """
    if "text" not in table.column_names:
        values = (value for chunk in contents(table).chunks for value in chunk.to_pylist())
        data = b"".join(
            hashlib.blake2b(value if isinstance(value, bytes) else value.encode(), digest_size=8).digest()
            for value in values
        )
        return np.frombuffer(data, np.uint64), np.frombuffer(data, np.uint64), None
    exact, folded, words = bytearray(), bytearray(), array("I")
    for batch in table["text"].chunks:
        for text in batch.to_pylist():
            parts = composed(text).casefold().split()
            exact += hashlib.blake2b(text.encode(), digest_size=8).digest()
            folded += hashlib.blake2b(" ".join(parts).encode(), digest_size=8).digest()
            words.append(len(parts))
    return np.frombuffer(exact, np.uint64), np.frombuffer(folded, np.uint64), np.array(words)


def _lengths(words: np.ndarray) -> dict[str, float]:
    return {
        "mean": round(float(words.mean()), 2),
        "median": float(np.median(words)),
        "p95": float(np.percentile(words, 95)),
        "max": int(words.max()),
    }


def _conflicts(digests: np.ndarray, labels: np.ndarray) -> int:
    """Number of texts that occur with more than one label."""
    order = np.lexsort((labels, digests))
    digests, labels = digests[order], labels[order]
    conflict = (digests[1:] == digests[:-1]) & (labels[1:] != labels[:-1])
    return len(np.unique(digests[1:][conflict]))


def _augmentation(table: "pa.Table") -> dict[str, Any]:
    rows = changed = 0
    for batch in table.select(["text", "aug"]).to_batches():
        for text, augmented in zip(batch["text"].to_pylist(), batch["aug"].to_pylist(), strict=True):
            rows += augmented is not None
            changed += augmented is not None and augmented != text
    return {"augmented": rows, "augmented_changed": round(changed / rows, 4) if rows else 0.0}


def cooccurrence(labels: np.ndarray) -> np.ndarray:
    """Share of the rows with label i that have label j too, (C, C), from labels (N, C) of 0 and 1; 0 without rows."""
    together = labels.T.astype(np.float64) @ labels
    counts = np.diag(together)[:, None]
    return np.divide(together, counts, out=np.zeros_like(together), where=counts > 0)
