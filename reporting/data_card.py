"""A data set's card as a table, as files and as pictures."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reporting.escape import for_figure, for_markdown, for_terminal
from reporting.figures import drawing, picture, save
from storage.files import write_text

MOST_NAMES = 100  # classes that are named and counted in the picture


def write_card(card: Mapping[str, Any], folder: Path, together: NDArray[np.floating] | None = None) -> Path:
    """Print the card and write card.md, card.json and the picture labels.svg, .pdf and .png into ``folder``.

    Args:
        card: of `datamodules.cards.card`.
        together: where texts have several labels, the share of the train rows with label i that have label j too,
            (C, C) in the card's order of labels; cooccurrence.svg, .pdf and .png show it.
    """
    from rich.console import Console
    from rich.table import Table

    facts, rows = _facts(card), _rows(card)
    table = Table("", *card["splits"], title=f"{for_terminal(card['name'])}: {card['classes']} classes")
    for name, *cells in rows:
        table.add_row(name, *cells)
    console = Console()
    console.print(table)
    for name, value in facts:
        console.print(f"[bold]{name}[/]: ", end="")
        console.print(for_terminal(value), markup=False, highlight=False)
    write_text(folder / "card.json", json.dumps(card, indent=1, ensure_ascii=False) + "\n")
    write_text(folder / "card.md", _markdown(card, facts, rows, together is not None))
    labels_picture(card, folder / "labels")
    if together is not None:
        counts = card["splits"]["train"]["class_counts"]
        cooccurrence_picture(card["name"], together, counts, folder / "cooccurrence")
    return folder


def _rows(card: Mapping[str, Any]) -> list[list[str]]:
    """Statistics as lines of a table: name, then a cell a split."""
    splits = card["splits"].values()
    unlabelled = any("unlabelled" in split for split in splits)
    is_text = all("words" in split for split in splits)
    kind = "text" if is_text else "input"
    lines = {
        "rows": [f"{split['rows']:,}" for split in splits],
        "classes that occur": [str(split["classes"]) for split in splits],
        "largest / smallest class": [f"{split['largest']:,} / {split['smallest']:,}" for split in splits],
        "ir": [f"{split['ir']:g}" for split in splits],
        **({"without a label": [f"{split.get('unlabelled', 0):,}" for split in splits]} if unlabelled else {}),
        **_several_lines(splits),
        **(_text_lines(splits) if is_text else {}),
        "duplicate rows": [f"{split['duplicates']:,}" for split in splits],
        f"{kind}s with conflicting labels": [f"{split['conflicting_texts']:,}" for split in splits],
        f"rows whose {kind} is in train": [
            f"{split['leaks_exact']:,}" if "leaks_exact" in split else "" for split in splits
        ],
    }
    lines |= {} if not is_text else {
        "… case and spaces aside": [
            f"{split['leaks_folded']:,}" if "leaks_folded" in split else "" for split in splits
        ],
        "augmented texts": [f"{split['augmented']:,}" if "augmented" in split else "none" for split in splits],
        "… that differ": [
            f"{split['augmented_changed']:.1%}" if "augmented_changed" in split else "" for split in splits
        ],
    }
    return [[name, *cells] for name, cells in lines.items()]


def _text_lines(splits: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    return {
        "words: mean / median": [f"{split['words']['mean']:g} / {split['words']['median']:g}" for split in splits],
        "words: p95 / max": [f"{split['words']['p95']:g} / {split['words']['max']:,}" for split in splits],
    }


def _several_lines(splits: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    splits = list(splits)
    if "cardinality" not in splits[0]:
        return {}
    return {
        "labels a row (cardinality)": [f"{split['cardinality']:g}" for split in splits],
        "share of all labels (density)": [f"{split['density']:g}" for split in splits],
        "different label sets": [f"{split['label_sets']:,}" for split in splits],
        "rows without a label": [f"{split['without_label']:,}" for split in splits],
    }


def _facts(card: Mapping[str, Any]) -> list[tuple[str, str]]:
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


def _markdown(card: Mapping[str, Any], facts: list[tuple[str, str]], rows: list[list[str]], multilabel: bool) -> str:
    splits = card["splits"]
    lines = [f"# {for_markdown(card['name'])}", "", f"{card['classes']} classes", ""]
    lines += ["| | " + " | ".join(splits) + " |", "|---|" + "---:|" * len(splits)]
    lines += ["| " + " | ".join(map(for_markdown, row)) + " |" for row in rows]
    lines += ["", *(f"- {name}: {for_markdown(value)}" for name, value in facts)]
    lines += ["", "![label distribution](labels.svg)", ""]
    if multilabel:
        lines += ["![labels that occur together](cooccurrence.svg)", ""]
    if sources := card["sources"]:
        lines += ["| source | bytes | SHA-256 |", "|---|---:|---|"]
        for source in sources:
            cells = (for_markdown(source["address"]), f"{source['bytes']:,}", f"`{source['sha256']}`")
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


@picture
def labels_picture(card: Mapping[str, Any], file: Path) -> Path:
    """Bars of the train rows a class, largest first, with their counts, the test rows as dots; logarithmic where ir is
    above 10. Of more than `MOST_NAMES` classes none is named."""
    splits = card["splits"]
    counts = sorted(splits["train"]["class_counts"].items(), key=lambda item: -item[1])
    are_many, are_named = len(counts) > 8, len(counts) <= MOST_NAMES
    heights = [count for _, count in counts]
    with drawing(min(max(5.0, 0.22 * len(counts) + 1.5), 16.0), 3.6) as (figure, (axes,)):
        positions = np.arange(len(counts))
        bars = axes.bar(positions, heights, color="#4477aa", width=0.8, label="train")
        test = splits.get("test", {}).get("class_counts")
        if test:
            dots = [test[name] or np.nan for name, _ in counts]
            axes.plot(positions, dots, "o", color="#ee6677", markersize=4, markeredgecolor="white", label="test")
            axes.legend(frameon=False, loc="lower right", bbox_to_anchor=(1, 1), ncols=2, reverse=True)
        top = max(heights) or 1
        if splits["train"]["ir"] > 10:
            bottom = 0.5 * min(split["smallest"] for split in splits.values())  # a bar of one row shows
            axes.set_yscale("log")
            axes.set_ylim(bottom, top * (top / bottom) ** 0.2)
            axes.yaxis.set_major_formatter("{x:g}")
        else:
            axes.set_ylim(0, 1.2 * top)
        if are_named:
            axes.bar_label(bars, heights, fontsize=7, padding=2, rotation=90 if are_many else 0)
        names = [for_figure(name, 24) for name, _ in counts] if are_named else []
        axes.set_ylabel("rows")
        axes.set_xticks(positions if are_named else [], names, rotation=90 if are_many else 0)
        axes.set_xlim(-0.7, len(counts) - 0.3)
        title = for_figure(f"{card['name']}: {len(counts)} classes, ir {splits['train']['ir']:g}")
        axes.set_title(title, loc="left", fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
        return save(figure, file)


@picture
def cooccurrence_picture(name: str, together: NDArray[np.floating], counts: Mapping[str, int], file: Path) -> Path:
    """Shares (C, C) among the largest train labels, at most 40, as a matrix; the diagonal is left out."""
    shown = np.argsort(-np.array(list(counts.values())), kind="stable")[:40]
    shares = together[np.ix_(shown, shown)].copy()
    np.fill_diagonal(shares, np.nan)
    names = [for_figure(list(counts)[label], 24) for label in shown]
    side = max(3.5, 0.2 * len(names) + 2)
    with drawing(side + 0.8, side) as (figure, (axes,)):
        image = axes.imshow(100 * shares, cmap="Blues", vmin=0, vmax=100)
        figure.colorbar(image, ax=axes, label="% of the rows of a label (left) that have the other too", shrink=0.8)
        axes.set_xticks(range(len(names)), names, rotation=90)
        axes.set_yticks(range(len(names)), names)
        axes.set_title(for_figure(f"{name}: labels that occur together, train"), loc="left", fontsize=10)
        return save(figure, file)
