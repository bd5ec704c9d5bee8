"""Data cards: what a prepared data set holds, counted; as a table, as files and as a picture."""

import hashlib
import json
from array import array
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from datamodules.labels import class_counts, label_array

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
    """
    splits: dict[str, dict[str, Any]] = {}
    train: tuple[np.ndarray, np.ndarray] | None = None
    for split in corpus.splits:
        table = corpus.table(split)
        exact, folded, words = text_digests(table)
        labels = label_array(table, len(corpus.label_names))
        counts = class_counts(labels, len(corpus.label_names))
        several = {}
        if corpus.multilabel:
            several = _label_sets(labels)
            labels = np.unique(np.packbits(labels, axis=1), axis=0, return_inverse=True)[1]
        labelled = labels >= 0
        present = counts[counts > 0] if counts.any() else np.zeros(1)
        splits[split] = facts = {
            "rows": len(table),
            "classes": int((counts > 0).sum()),
            "largest": int(present.max()),
            "smallest": int(present.min()),
            "ir": round(float(present.max() / max(present.min(), 1)), 2),
            **several,
            "words": _lengths(words),
            "duplicates": len(exact) - len(np.unique(exact)),
            "conflicting_texts": _conflicts(exact[labelled], labels[labelled]),
        }
        if not labelled.all():
            facts["unlabelled"] = int((~labelled).sum())
        if train is None:
            train = exact, folded
        else:
            facts["leaks_exact"] = int(np.isin(exact, train[0]).sum())
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


def text_digests(table: "pa.Table") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """64-bit digests of the texts, of the texts in lower case with single spaces, and lengths in words: (N,) each.

    Two of a million different texts share a digest with probability 3e-8.
    """
    exact, folded, words = bytearray(), bytearray(), array("I")
    for batch in table["text"].chunks:
        for text in batch.to_pylist():
            parts = text.lower().split()
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


def describe(corpus: "Corpus", folder: Path) -> Path:
    """Print the card and write card.md, card.json and the picture labels.svg / labels.png into ``folder``; where texts
    have several labels cooccurrence.svg / cooccurrence.png too.
    """
    from rich.console import Console
    from rich.table import Table

    folder.mkdir(parents=True, exist_ok=True)
    facts, rows = _facts(corpus.card), _rows(corpus.card)
    table = Table("", *corpus.splits, title=f"{corpus.name}: {corpus.card['classes']} classes")
    for name, *cells in rows:
        table.add_row(name, *cells)
    console = Console()
    console.print(table)
    for name, value in facts:
        console.print(f"[bold]{name}[/]: ", end="")
        console.print(value, markup=False, highlight=False)
    (folder / "card.json").write_text(json.dumps(corpus.card, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    (folder / "card.md").write_text(_markdown(corpus, facts, rows), encoding="utf-8")
    _picture(corpus, folder)
    if corpus.multilabel:
        _cooccurrence_picture(corpus, folder)
    return folder


def _rows(card: dict[str, Any]) -> list[list[str]]:
    """Statistics as lines of a table: name, then a cell a split."""
    splits = card["splits"].values()
    unlabelled = any("unlabelled" in split for split in splits)
    lines = {
        "rows": [f"{split['rows']:,}" for split in splits],
        "classes that occur": [str(split["classes"]) for split in splits],
        "largest / smallest class": [f"{split['largest']:,} / {split['smallest']:,}" for split in splits],
        "ir": [f"{split['ir']:g}" for split in splits],
        **({"without a label": [f"{split.get('unlabelled', 0):,}" for split in splits]} if unlabelled else {}),
        **_several_lines(splits),
        "words: mean / median": [f"{split['words']['mean']:g} / {split['words']['median']:g}" for split in splits],
        "words: p95 / max": [f"{split['words']['p95']:g} / {split['words']['max']:,}" for split in splits],
        "duplicate rows": [f"{split['duplicates']:,}" for split in splits],
        "texts with conflicting labels": [f"{split['conflicting_texts']:,}" for split in splits],
        "rows whose text is in train": [
            f"{split['leaks_exact']:,}" if "leaks_exact" in split else "" for split in splits
        ],
        "… case and spaces aside": [
            f"{split['leaks_folded']:,}" if "leaks_folded" in split else "" for split in splits
        ],
        "augmented texts": [f"{split['augmented']:,}" if "augmented" in split else "none" for split in splits],
        "… that differ": [
            f"{split['augmented_changed']:.1%}" if "augmented_changed" in split else "" for split in splits
        ],
    }
    return [[name, *cells] for name, cells in lines.items()]


def _several_lines(splits: Iterable[dict[str, Any]]) -> dict[str, list[str]]:
    splits = list(splits)
    if "cardinality" not in splits[0]:
        return {}
    return {
        "labels a row (cardinality)": [f"{split['cardinality']:g}" for split in splits],
        "share of all labels (density)": [f"{split['density']:g}" for split in splits],
        "different label sets": [f"{split['label_sets']:,}" for split in splits],
        "rows without a label": [f"{split['without_label']:,}" for split in splits],
    }


def _facts(card: dict[str, Any]) -> list[tuple[str, str]]:
    removed = card["removed"]
    paper = ", ".join(f"{key} {value}" for key, value in card["paper"].items())
    return [
        ("licence", card["licence"]),
        ("origin", card["origin"]),
        ("source files", f"{len(card['sources'])}, {sum(source['bytes'] for source in card['sources']):,} bytes"),
        ("in the paper", paper or "not used"),
        ("differences", card["differences"]),
        ("split", card["split_rule"]),
        (
            "removed",
            f"{removed['duplicates']} duplicates, {removed['leaks']} leaks (deduplicate={card['deduplicate']})",
        ),
        ("fingerprint", card["fingerprint"]),
    ]


def _markdown(corpus: "Corpus", facts: list[tuple[str, str]], rows: list[list[str]]) -> str:
    lines = [f"# {corpus.name}", "", f"{corpus.card['classes']} classes", ""]
    lines += ["| | " + " | ".join(corpus.splits) + " |", "|---|" + "---:|" * len(corpus.splits)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    lines += ["", *(f"- {name}: {value}" for name, value in facts)]
    lines += ["", "![label distribution](labels.svg)", ""]
    if corpus.multilabel:
        lines += ["![labels that occur together](cooccurrence.svg)", ""]
    if sources := corpus.card["sources"]:
        lines += ["| source | bytes | SHA-256 |", "|---|---:|---|"]
        lines += [f"| {source['address']} | {source['bytes']:,} | `{source['sha256']}` |" for source in sources]
    return "\n".join(lines) + "\n"


def _picture(corpus: "Corpus", folder: Path) -> None:
    """Bars of the train rows a class, largest first, the test rows as dots; logarithmic where ir is above 10."""
    import matplotlib
    from matplotlib.figure import Figure

    splits = corpus.card["splits"]
    counts = sorted(splits["train"]["class_counts"].items(), key=lambda item: -item[1])
    names = [name if len(name) <= 24 else f"{name[:23]}…" for name, _ in counts]
    named = len(names) <= 80
    with matplotlib.rc_context({"svg.hashsalt": "labels", "font.size": 9, "svg.fonttype": "none"}):
        figure = Figure(figsize=(min(max(5.0, 0.22 * len(names) + 1.5), 16.0), 3.6), layout="constrained")
        axes = figure.subplots()
        positions = np.arange(len(names))
        axes.bar(positions, [count for _, count in counts], color="#4477aa", width=0.8, label="train")
        test = splits.get("test", {}).get("class_counts")
        if test:
            heights = [test[name] or np.nan for name, _ in counts]
            axes.plot(positions, heights, "o", color="#ee6677", markersize=4, markeredgecolor="white", label="test")
            axes.legend(frameon=False, loc="lower right", bbox_to_anchor=(1, 1), ncols=2, reverse=True)
        if splits["train"]["ir"] > 10:
            axes.set_yscale("log")
            axes.set_ylim(bottom=0.5 * min(split["smallest"] for split in splits.values()))  # a bar of one row shows
            axes.yaxis.set_major_formatter("{x:g}")
        axes.set_ylabel("rows")
        axes.set_xticks(positions if named else [], names if named else [], rotation=90 if len(names) > 8 else 0)
        axes.set_xlim(-0.7, len(names) - 0.3)
        axes.set_title(f"{corpus.name}: {len(names)} classes, ir {splits['train']['ir']:g}", loc="left")
        axes.spines[["top", "right"]].set_visible(False)
        figure.savefig(folder / "labels.svg", metadata={"Date": None})
        figure.savefig(folder / "labels.png", dpi=150)


def cooccurrence(labels: np.ndarray) -> np.ndarray:
    """Share of the rows with label i that have label j too, (C, C), from labels (N, C) of 0 and 1; 0 without rows."""
    together = labels.T.astype(np.float64) @ labels
    counts = np.diag(together)[:, None]
    return np.divide(together, counts, out=np.zeros_like(together), where=counts > 0)


def _cooccurrence_picture(corpus: "Corpus", folder: Path) -> None:
    """Shares among the largest train labels, at most 40, as a matrix; the diagonal is left out."""
    import matplotlib
    from matplotlib.figure import Figure

    labels = label_array(corpus.table("train"), len(corpus.label_names))
    shown = np.argsort(-labels.sum(axis=0, dtype=np.int64), kind="stable")[:40]
    shares = cooccurrence(labels[:, shown])
    np.fill_diagonal(shares, np.nan)
    names = [corpus.label_names[label][:24] for label in shown]
    side = max(3.5, 0.2 * len(names) + 2)
    with matplotlib.rc_context({"svg.hashsalt": "cooccurrence", "font.size": 8, "svg.fonttype": "none"}):
        figure = Figure(figsize=(side + 0.8, side), layout="constrained")
        axes = figure.subplots()
        image = axes.imshow(100 * shares, cmap="Blues", vmin=0, vmax=100)
        figure.colorbar(image, ax=axes, label="% of the rows of a label (left) that have the other too", shrink=0.8)
        axes.set_xticks(range(len(names)), names, rotation=90)
        axes.set_yticks(range(len(names)), names)
        axes.set_title(f"{corpus.name}: labels that occur together, train", loc="left")
        figure.savefig(folder / "cooccurrence.svg", metadata={"Date": None})
        figure.savefig(folder / "cooccurrence.png", dpi=150)
