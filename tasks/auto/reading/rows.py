"""The rows of a study: sampled where they are too many, kept in its folder, and what is to be known of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datamodules.class_descriptions import nearly_alike
from datamodules.labels import class_counts
from datamodules.splits import rank_in_class
from storage.errors import short
from storage.files import replacing
from storage.run_store import RunFolder
from storage.tables import folded
from tasks.auto.reading.guesses import words_in
from tasks.auto.reading.labelled import Labelled

MOST_ROWS = 20_000  # that methods are compared on
ALL_ROWS = "all_rows.parquet"  # with those that were not compared, where a model reads them from a file
MOST_UNLABELLED = 20_000  # texts without a label that are read beside them
FAR_MORE = 1.5  # times its share of the rows
LEAST_OF_A_CLASS = 10  # rows that sampling leaves, fewer where classes are very many
MOST_ALIKE = 3  # pairs of labels that are said to be called alike
LONG_TEXT = 90  # words, above which more tokens are read
ENOUGH = "balanced, enough rows"
FEW_ROWS = 1000  # below it, methods for few labels are tried
IMBALANCE = 3.0  # largest to smallest class, from which methods for rare classes are tried
MANY_CLASSES = 50
MANY_UNLABELLED = 1.0  # texts without a label to labelled rows, from which methods that read them are tried
_SAMPLE, _SAMPLE_UNLABELLED = 10, 12  # streams of random numbers


def sampled(data: Labelled, most: int, seed: int) -> Labelled:
    """The same data with about so many rows at the most, in the order of the file, each class in proportion.

    Where they leave room, texts without a label fill it.
    """
    data = _fewer_unlabelled(data, max(most - len(data.labels), 0), seed)
    most = min(most, MOST_ROWS)
    if len(data.labels) <= most:
        return data
    rows = rows_drawn(data, most, seed)
    texts, kept_labels = ([values[row] for row in rows] for values in (data.texts, data.labels))
    lines = [data.lines[row] for row in rows]
    notes = [*data.notes, *notes_of_sample(data, kept_labels, most < MOST_ROWS)]
    return replace(data, texts=texts, labels=kept_labels, lines=lines, notes=notes)


def rows_drawn(data: Labelled, most: int, seed: int) -> NDArray[np.int64]:
    """Positions of about so many rows, ascending; those of fewer are among them."""
    draw = _rows_of_several if data.several else _rows_of_classes
    return draw(data, most, np.random.default_rng([seed, _SAMPLE]))


def notes_of_sample(data: Labelled, drawn: Sequence[Any], by_time: bool) -> list[str]:
    """What is to be said of the rows with these labels, drawn of all: how many, whether the minutes forbade more, and
    of which class or classes they hold one and a half times their share."""
    why = ", as many as fit into the minutes; with more minutes force=true draws anew" if by_time else ""
    which = f"{len(drawn):,} of {len(data.labels):,} rows, drawn at random"
    notes = [f"{which}, are compared, and what fine-tunes learns from them alone{why}"]
    counts, share = Counter(drawn), len(drawn) / len(data.labels)
    sizes = {} if data.several else data.rows_of_label()
    rare = [name for name, number in sizes.items() if counts[name] > FAR_MORE * max(share * number, 1)]
    if rare:
        which = short(rare[0]) if len(rare) == 1 else f"{len(rare)} rare classes"
        notes.append(f"of {which} they hold more than their share: in the whole file more of these answers are wrong")
    return notes


def _rows_of_classes(data: Labelled, most: int, rng: np.random.Generator) -> NDArray[np.int64]:
    index = {name: number for number, name in enumerate(sorted(data.rows_of_label()))}
    labels = np.array([index[str(label)] for label in data.labels])
    sizes = np.bincount(labels)
    least = max(2, min(LEAST_OF_A_CLASS, most // len(index)))
    quota = np.maximum(np.minimum(sizes, least), np.round(sizes * most / len(labels)).astype(int))
    return np.flatnonzero(rank_in_class(labels, rng) < quota[labels])


def _rows_of_several(data: Labelled, most: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """The first of a random order, and of the others those whose labels are still rare among them."""
    least = max(2, min(LEAST_OF_A_CLASS, most // len(data.rows_of_label())))
    drawn: Counter[str] = Counter()
    rows = []
    for place, row in enumerate(rng.permutation(len(data.labels)).tolist()):
        if place < most or any(drawn[name] < least for name in data.labels[row]):
            rows.append(row)
            drawn.update(data.labels[row])
    return np.sort(np.array(rows))


def _fewer_unlabelled(data: Labelled, most: int, seed: int) -> Labelled:
    most = min(most, MOST_UNLABELLED)
    if len(data.unlabelled) <= most:
        return data
    rng = np.random.default_rng([seed, _SAMPLE_UNLABELLED])
    kept = np.sort(rng.permutation(len(data.unlabelled))[:most]).tolist()
    note = f"{most:,} of {len(data.unlabelled):,} texts without a label, drawn at random, are kept"
    return replace(data, unlabelled=[data.unlabelled[row] for row in kept], notes=[*data.notes, note])


def write_rows(run: RunFolder, data: Labelled, name: str = "rows.parquet") -> Path:
    """`unlabelled.parquet`: text, where there are such texts; then the file: row, file, line, text, label."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {
        "row": pa.array(range(len(data.labels)), pa.int64()),
        "file": pa.array([data.file] * len(data.labels), pa.string()),
        "line": pa.array(data.lines, pa.int64()),
        "text": pa.array(data.texts, pa.string()),
        "label": pa.array(data.labels, pa.list_(pa.string()) if data.several else pa.string()),
    }
    if data.unlabelled:
        with replacing(run.path / "unlabelled.parquet") as file:
            pq.write_table(pa.table({"text": pa.array(data.unlabelled, pa.string())}), file)
    with replacing(run.path / name) as file:
        pq.write_table(pa.table(columns), file)
    return run.path / name


def max_length_for(texts: Sequence[str]) -> int:
    """Tokens of a text that are read, by at most `MOST_ROWS` of the texts, spread evenly."""
    lengths = np.array([words_in(text) for text in texts[:: -(-len(texts) // MOST_ROWS)]])
    return 256 if np.quantile(lengths, 0.8) > LONG_TEXT else 128


def texts_cut(texts: Sequence[str], limit: int) -> int:
    """How many texts have more words than so many tokens, each of which is one at least."""
    return sum(words_in(text) > limit for text in texts)


def notes_of_length(cut: int, rows: int, limit: int) -> list[str]:
    """What is to be said of texts of which the first tokens alone are read."""
    return [f"{cut:,} of {rows:,} texts have more than {limit} tokens: their first {limit} are read"] if cut else []


def _called_alike(names: Sequence[str], counts: Sequence[int]) -> list[str]:
    """What is to be said of labels that may be one, mistyped, those of the fewest rows first."""
    pairs = sorted(nearly_alike(names), key=lambda pair: (min(counts[place] for place in pair), pair))
    shown = [[f"{short(names[c])} ({counts[c]:,} row{'' if counts[c] == 1 else 's'})" for c in p] for p in pairs]
    notes = [f"{first} and {second} are classes of their own, though they are called alike" for first, second in shown]
    more = [f"{len(notes) - MOST_ALIKE} more pairs of classes are called alike"] if len(notes) > MOST_ALIKE else []
    remedy = ["one spelling in the file makes one class of those that are called alike"] if notes else []
    return notes[:MOST_ALIKE] + more + remedy


def _alike(names: Sequence[str]) -> dict[str, list[str]]:
    """By label those that it is called like, where there are any."""
    alike: dict[str, list[str]] = {}
    for first, second in sorted(nearly_alike(names)):
        alike.setdefault(names[first], []).append(names[second])
        alike.setdefault(names[second], []).append(names[first])
    return alike


def regimes_of(
    class_counts: NDArray[np.integer], rows: int, num_unlabelled: int = 0, several: bool = False
) -> list[str]:
    """What is special about the data: "several labels a text", "few rows", "imbalanced", "many classes", "many
    unlabelled"."""
    regimes = ["several labels a text"] if several else []
    regimes += ["few rows"] if rows < FEW_ROWS else []
    regimes += ["imbalanced"] if are_imbalanced(class_counts) else []
    regimes += ["many classes"] if len(class_counts) >= MANY_CLASSES else []
    return regimes + (["many unlabelled"] if num_unlabelled >= MANY_UNLABELLED * rows else [])


def are_imbalanced(class_counts: NDArray[np.integer]) -> bool:
    """Whether the largest class is so much larger than the smallest that methods for rare classes are tried.

    A class of one row does not count: no fold that is held out can measure it, and it may be a label mistyped once.
    """
    largest = class_counts.max()
    return bool(largest >= IMBALANCE * class_counts[class_counts > 1].min(initial=largest))


def facts(
    data: Labelled, names: Sequence[str], labels: NDArray[np.int64], whole: Labelled | None
) -> dict[str, Any]:
    """What `data.json` says.

    Args:
        data: the rows that are read.
        names, labels: C class names, and the class (N,) of each row, or its labels (N, C) of 0 and 1.
        whole: all rows, of which these were drawn; None where all are read.
    """
    counts = class_counts(labels, len(names))
    in_file = (whole or data).rows_of_label()
    alike, classes = _alike(names), []
    for name, count in zip(names, counts, strict=True):
        entry: dict[str, Any] = {"label": name, "rows": int(count)}
        entry |= {} if whole is None else {"rows_in_file": in_file[name]}
        classes.append(entry | ({"alike": alike[name]} if name in alike else {}))
    normal = list(map(folded, data.texts))
    by_text: dict[str, set[Any]] = {}
    for text, label in zip(normal, data.labels, strict=True):
        by_text.setdefault(text, set()).add(frozenset(label) if data.several else label)
    repeats = Counter(normal)
    conflicting = sum(repeats[text] for text, own_labels in by_text.items() if len(own_labels) > 1)
    duplicates = len(normal) - len(by_text)
    singles = [names[c] for c in np.flatnonzero(counts == 1).tolist()]
    notes = list(data.notes)
    if singles:
        more = ", …" if len(singles) > 5 else ""
        what = "labels" if data.several else "classes"
        notes.append(f"{what} of one row cannot be measured: {', '.join(singles[:5])}{more}")
    notes += _called_alike(names, [in_file[name] for name in names])
    if duplicates:
        notes.append(
            f"{duplicates} rows repeat the text of another; equal texts stay in one fold, and count once in intervals, "
            "comparisons and sure answers"
        )
    if conflicting:
        notes.append(f"{conflicting} rows have a text that stands with another label too")
    return {
        "rows": len(data.texts),
        "classes": classes,
        "several_labels": data.several,
        "unlabelled_rows": len(data.unlabelled),
        "median_words": float(np.median([words_in(text) for text in data.texts])),
        "files": [data.about],
        "duplicates": duplicates,
        "conflicting_duplicates": conflicting,
        "markup_rows": data.about.get("markup_rows", 0),
        "regime": ", ".join(regimes_of(counts, len(data.labels), len(data.unlabelled), data.several)) or ENOUGH,
        "sampled_from": None if whole is None else len(whole.labels),
        "notes": notes,
    }
