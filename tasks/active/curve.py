"""The learning curve of an active-learning run: its files, its figures, what is printed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from engine.results import warn_below_rivals
from labelling.answers import NO_LABEL, NONE_FITS
from reporting.curves import lines_figure
from reporting.tables import Table, marked
from storage.run_store import RunFolder
from tasks.active.people import Code

METRICS = ("accuracy", "macro_f1")
OF_SETS = "micro_f1"  # where texts have several classes
LOGISTIC = ("logistic_accuracy", "logistic_micro_f1", "logistic_macro_f1")  # logistic regression on the same labels
HEADINGS = {
    "accuracy": "accuracy",
    "macro_f1": "macro-F1",
    "micro_f1": "micro-F1",
    "logistic_accuracy": "logistic regression, accuracy",
    "logistic_micro_f1": "logistic regression, micro-F1",
    "logistic_macro_f1": "macro-F1 of it",
    "non-uniformity": "non-uniformity",
}
FEW = 30  # texts; a share of fewer says little


@dataclass
class Round:
    """One query: positions in the pool and their classes (a list of them where texts have several, of `NO_LABEL` where
    there is none), why, what came of it."""

    positions: list[int]
    scores: list[float]
    reasons: list[str]
    labels: list[Code] | None = None
    run: str | None = None  # none yet, or too few labels to train
    figures: dict[str, float] = field(default_factory=dict)
    is_done: bool = False
    seconds: float = 0.0  # that the query took
    guesses: list[list[Any]] = field(default_factory=list)  # of each text class and probability, where a person answers


def curve_keys(split: str, has_several: bool) -> list[str]:
    """Figures of a round's run that the curve shows, where the run has them; `has_several`: classes a text."""
    of_sets = [OF_SETS] if has_several else []
    return [f"{split}/{name}" for name in (*METRICS, *of_sets, *LOGISTIC)]


def trained_rounds(rounds: list[Round]) -> list[Round]:
    """Those that had labels enough."""
    return [round_ for round_ in rounds if round_.run is not None]


def round_run(run: RunFolder, round_: Round) -> RunFolder:
    """The run of a round that was trained."""
    return RunFolder(run.path.parent / str(round_.run))


def is_label(label: Code) -> bool:
    """Whether it is no number of `NO_LABEL`."""
    return isinstance(label, list) or label >= 0


def labelled(rounds: list[Round]) -> tuple[np.ndarray, list[Code]]:
    """Positions (L,) int64 of the texts that have a label, and their labels."""
    pairs = [pair for round_ in rounds for pair in zip(round_.positions, round_.labels or [], strict=False)]
    pairs = [(position, label) for position, label in pairs if is_label(label)]
    return np.array([position for position, _ in pairs], dtype=np.int64), [label for _, label in pairs]


def fit_no_class(rounds: list[Round]) -> list[int]:
    """Positions of the texts of which a person said that no class fits."""
    pairs = [pair for round_ in rounds for pair in zip(round_.positions, round_.labels or [], strict=False)]
    return [position for position, label in pairs if label == NO_LABEL[NONE_FITS]]


def write_curve(
    run: RunFolder, rounds: list[Round], texts: Sequence[str], label_names: Sequence[str], separator: str
) -> None:
    """`curve.csv` and `chosen.csv` of the rounds so far; `separator` stands between the classes of a text."""
    if trained := trained_rounds(rounds):
        columns = list(dict.fromkeys(key for round_ in trained for key in round_.figures))
        lines = ([*(round_.figures.get(key) for key in columns), round_.run] for round_ in trained)
        run.write_csv("curve.csv", lines, [*columns, "run"])
    names = dict(enumerate(label_names)) | {number: word for word, number in NO_LABEL.items()}

    def cell(label: Code) -> str:
        return separator.join(names[c] for c in label) or NONE_FITS if isinstance(label, list) else names[label]

    chosen = (
        (number, position, cell(label), score, reason, texts[position])
        for number, round_ in enumerate(rounds)
        for position, label, score, reason in zip(
            round_.positions, round_.labels or [], round_.scores, round_.reasons, strict=True
        )
    )
    run.write_csv("chosen.csv", chosen, ("round", "position", "label", "score", "reason", "text"))


def figures(rounds: list[Round], run: RunFolder, begins_by_names: bool) -> dict[str, Any]:
    """Of each point of the curve, ``active/accuracy@K``; its mean height over the labels; all of the last round's;
    what any of its runs read, the names included where the first texts were chosen by them."""
    trained = trained_rounds(rounds)
    points, runs = [round_.figures for round_ in trained], [round_run(run, r).read_metrics() for r in trained]
    last, letters = runs[-1], {letter for metrics in runs for letter in metrics.get("reads") or ""}
    labels, split = [point["labels"] for point in points], reported_split(points[0])
    figures: dict[str, Any] = {key: value for key, value in last.items() if key.startswith(f"{split}/")}
    figures["reads"] = "".join(sorted(letters | ({"N"} if begins_by_names else set())))
    figures |= {"last_run": trained[-1].run, "rounds": len(rounds), "labels": labels[-1]}
    seconds = {round_.run: metrics["seconds/total"] for round_, metrics in zip(trained, runs, strict=True)}
    figures["seconds/total"] = sum(seconds.values()) + sum(round_.seconds for round_ in rounds)
    figures["active/non_uniformity"] = points[-1]["non-uniformity"]
    for metric in METRICS:
        heights = [point[f"{split}/{metric}"] for point in points]
        figures[f"active/area_{metric}"] = area_under(labels, heights)
        figures |= {f"active/{metric}@{number}": height for number, height in zip(labels, heights, strict=True)}
    return figures


def reported_split(figures: Mapping[str, Any]) -> str:
    """The split that a curve shows."""
    return "test" if "test/accuracy" in figures else "val"


def area_under(labels: Sequence[float], heights: list[float]) -> float:
    """Mean height of the curve through the points, by trapezia; of one point its height."""
    width = labels[-1] - labels[0]
    return float(np.trapezoid(heights, labels) / width) if width else heights[-1]


def right_of(run: RunFolder, round_: Round) -> tuple[int, int, str]:
    """How many texts of the reported split the round's model labels right, of how many, and which split that is."""
    split = reported_split(round_.figures)
    rows = len(round_run(run, round_).read_json("kept_indices.json")[split])
    return round(round_.figures[f"{split}/accuracy"] * rows), rows, split


def line(run: RunFolder, rounds: list[Round]) -> str:
    """What the last round came to."""
    head = f"round {len(rounds)}: {len(labelled(rounds)[0])} labels"
    if not rounds[-1].figures:
        return f"{head}, too few to train"
    right, rows, split = right_of(run, rounds[-1])
    if rows < FEW:
        return f"{head}, {right} of {rows} {split} texts right"
    return f"{head}, {split} accuracy {100 * rounds[-1].figures[f'{split}/accuracy']:.2f} %"


def report(run: RunFolder) -> None:
    """Print the curve, and draw it."""
    metrics, rows = run.read_metrics(), run.read_csv("curve.csv")
    split = reported_split(rows[0])
    keys = ("method", "active", "dataset", "encoder", "head")
    shown = metrics | {"method": marked(str(metrics["method"]), [metrics])}
    title = " · ".join(str(shown[key]) for key in keys if key in metrics)
    title += f" · seed {metrics['seed']} · protocol {metrics['protocol']} · {split} split, %"
    columns = [key for key in (*curve_keys(split, True), "non-uniformity") if key in rows[0]]
    percent = {key: [f"{100 * float(row[key]):.2f}" if row[key] else "" for row in rows] for key in columns}
    cells = tuple(zip([row["labels"] for row in rows], *percent.values(), strict=True))
    Table(title, ("labels", *(HEADINGS[key.rpartition("/")[2]] for key in columns)), cells).show()
    if split == "val":
        last = len(RunFolder(run.path.parent / rows[-1]["run"]).read_json("kept_indices.json")[split])
        print(f"no test rows: these are figures of the {last} labelled rows that chose the epoch, and say little")
    print(
        f"area under the curve: accuracy {100 * metrics['active/area_accuracy']:.2f}, "
        f"macro-F1 {100 * metrics['active/area_macro_f1']:.2f}"
    )
    warn_below_rivals(metrics, split)
    lines: dict[str, dict[float, list[float]]] = {
        HEADINGS[key.rpartition("/")[2]]: {int(row["labels"]): [float(row[key])] for row in rows if row[key]}
        for key in columns[:-1]
    }
    lines_figure({title: lines}, "labels", "%", run.path / "curve")
