"""Tables that a run or a sweep ends with: rich on a terminal, plain text elsewhere, Markdown and CSV for files."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TextIO

import numpy as np
from numpy.typing import ArrayLike

from reporting.escape import for_markdown, for_terminal
from reporting.metrics import class_scores, confusion_matrix
from storage.run_store import RunFolder, csv_text

SUMMARY_COLUMNS = {
    "accuracy": "accuracy",
    "macro_f1": "macro-F1",
    "macro_f1_head": "F1 largest third",
    "macro_f1_middle": "F1 middle third",
    "macro_f1_tail": "F1 smallest third",
}
MULTILABEL_COLUMNS = {
    "micro_f1": "micro-F1",
    "macro_f1": "macro-F1",
    "hamming_loss": "Hamming loss",
    "subset_accuracy": "subset accuracy",
    "precision_at_1": "P@1",
    "precision_at_3": "P@3",
    "precision_at_5": "P@5",
    "ndcg_at_5": "nDCG@5",
}
LABEL_COLUMNS = ("label", "train_rows", "rows", "predicted", "precision", "recall", "f1", "threshold")
SWEEP_METRICS = (
    "test/accuracy",
    "test/macro_f1",
    "test/macro_f1_tail",
    "test/hamming_loss",
    "test/ndcg_at_5",
    "cluster/acc",
    "cluster/nmi",
)
TOTAL_SECONDS = "seconds/total"
OF_SHARES = ("val/", "test/", "train/", "cluster/", "oracle/", "orders/", "agreement/", "active/", "retrieval/recall")
NO_SHARES = frozenset(
    ("loss", "brier", "brier_scaled", "temperature", "alignment", "uniformity", "silhouette", "inertia", "num_clusters",
     "occupied", "largest", "smallest", "texts", "classes", "epoch")
)  # fmt: skip
MISSING = "–"


@dataclass(frozen=True)
class Table:
    """A title, a header and rows of text."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def show(self, file: TextIO | None = None) -> None:
        """Print it: with rich where the file is a terminal, as plain text otherwise."""
        file = sys.stdout if file is None else file
        if not file.isatty():
            print(self.plain(), file=file)
            return
        from rich.console import Console
        from rich.markup import escape
        from rich.table import Table as RichTable

        def shown(text: str) -> str:
            return escape(for_terminal(text))

        table = RichTable(title=shown(self.title), title_justify="left")
        for position, name in enumerate(self.header):
            table.add_column(shown(name), justify="right" if self._is_numeric(position) else "left", overflow="fold")
        for row in self.rows:
            table.add_row(*map(shown, row))
        Console(file=file).print(table)

    def plain(self) -> str:
        return f"{for_terminal(self.title)}\n{self._tabulate('simple', for_terminal)}"

    def markdown(self) -> str:
        return f"{self.title}\n\n{self._tabulate('github', for_markdown)}\n"

    def csv(self) -> str:
        return csv_text(self.rows, self.header)

    def _tabulate(self, style: str, escaped: Callable[[str], str]) -> str:
        from tabulate import tabulate

        align = ["right" if self._is_numeric(position) else "left" for position in range(len(self.header))]
        header, *rows = (tuple(map(escaped, row)) for row in (self.header, *self.rows))
        return tabulate(rows, headers=header, tablefmt=style, disable_numparse=True, colalign=align)

    def _is_numeric(self, position: int) -> bool:
        cells = [row[position] for row in self.rows if row[position] not in ("", MISSING)]
        return bool(cells) and all(cell[0] in "+-0123456789" for cell in cells)


def is_share(key: str) -> bool:
    """Whether a figure of a run is a fraction, which tables show in %; the others are shown as they are."""
    return key.startswith(OF_SHARES) and key.rpartition("/")[2] not in NO_SHARES


def factor_of(key: str) -> float:
    """By which tables multiply a figure."""
    return 100 if is_share(key) else 1


def mean_and_spread(figures: Sequence[float], factor: float) -> str:
    """Mean ± standard deviation (n - 1) of figures, multiplied."""
    values = factor * np.array(figures)
    if not len(values):
        return MISSING
    return f"{values.mean():.2f}" + (f" ± {values.std(ddof=1):.2f}" if len(values) > 1 else "")


def percent(value: float | None) -> str:
    """A fraction in percent with two digits, as papers print it."""
    return MISSING if value is None else f"{100 * value:.2f}"


def duration(seconds: float | None) -> str:
    """Seconds as people say them: 3.2 s, 4 min 05 s, 1 h 20 min."""
    if seconds is None:
        return MISSING
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def marks(runs: Iterable[Mapping[str, Any]]) -> str:
    """What these runs learned from besides labelled texts, from their ``metrics.json``: "N U", or "" for nothing."""
    return " ".join(sorted({mark for metrics in runs for mark in metrics.get("reads") or ""}))


def marked(name: str, runs: Iterable[Mapping[str, Any]]) -> str:
    """The name of these runs with their marks, for rows that read more are no equals."""
    return f"{name} ({letters})" if (letters := marks(runs)) else name


def summary_table(metrics: Mapping[str, Any], split: str = "test") -> Table:
    """The table that ends a run, from its ``metrics.json``; figures in percent.

    N beside the run: it read the names of the classes; U: texts without a label. Below it stand the interval of each
    figure, by resampling the rows, what always the largest class gives (where texts have several labels, always the
    commonest), and logistic regression over the encoder as it comes (where texts have several, one a label).
    Under the published protocol the title names it, since the epoch was then chosen on the test split itself.
    """
    names = [str(metrics[key]) for key in ("method", "dataset", "encoder", "head") if metrics.get(key)]
    title = " · ".join([*names, *([f"seed {metrics['seed']}"] if "seed" in metrics else []), f"{split} split, %"])
    if metrics.get("protocol") == "published":
        title += " · protocol published (epoch chosen on the test split)"
    has_several = f"{split}/hamming_loss" in metrics
    columns = MULTILABEL_COLUMNS if has_several else SUMMARY_COLUMNS
    row = [*(percent(metrics.get(f"{split}/{key}")) for key in columns), duration(metrics.get(TOTAL_SECONDS))]
    rows = [(marked("this run", [metrics]), *row)]
    if any(f"{split}/{key}_low" in metrics for key in columns):
        rows.append(("95 % interval", *(_interval(metrics, f"{split}/{key}") for key in columns), ""))
    if any(f"{split}/majority_{key}" in metrics for key in columns):
        name = "commonest labels" if has_several else "largest class"
        rows.append((name, *_rival(metrics, f"{split}/majority_", columns), ""))
    if any(f"{split}/logistic_{key}" in metrics for key in columns):
        name = f"logistic regression, {metrics.get('rival_reads', 'frozen encoder')}"
        rows.append((name, *_rival(metrics, f"{split}/logistic_", columns), ""))
    return Table(title, ("", *columns.values(), "time"), tuple(rows))


def _rival(metrics: Mapping[str, Any], start: str, columns: Iterable[str]) -> Iterator[str]:
    values = (metrics.get(start + key) for key in columns)
    return ("" if value is None else percent(value) for value in values)


def _interval(metrics: Mapping[str, Any], key: str) -> str:
    low, high = (metrics.get(f"{key}_{end}") for end in ("low", "high"))
    return "" if low is None else f"{percent(low)} to {percent(high)}"


def retrieval_table(metrics: Mapping[str, Any], split: str = "test") -> Table:
    """Figures of the model, of the model and its neighbours, and of the neighbours alone, from ``metrics.json``."""
    letters = {"k": "num_neighbours", "tau": "temperature", "lam": "lam"}
    vote = " · ".join(f"{letter} {metrics[f'retrieval/{name}']:g}" for letter, name in letters.items())
    start = f"{split}/retrieval_"
    columns = MULTILABEL_COLUMNS if f"{split}/hamming_loss" in metrics else SUMMARY_COLUMNS
    keys = [key for key in columns if start + key in metrics]
    rows = [
        (name, *(percent(metrics.get(f"{split}/{prefix}{key}")) for key in keys))
        for name, prefix in (("model", ""), ("with neighbours", "retrieval_"), ("neighbours alone", "neighbours_"))
    ]
    title = f"Retrieval from {metrics['retrieval/rows']} rows · {vote} · {split} split, %"
    return Table(title, ("scores of", *(columns[key] for key in keys)), tuple(rows))


CLUSTERING_COLUMNS = {
    "acc": "ACC",
    "nmi": "NMI",
    "nmi_arithmetic": "NMI (arithmetic)",
    "ari": "ARI",
    "purity": "purity",
    "acc_assigned": "ACC, outliers assigned",
    "nmi_assigned": "NMI, outliers assigned",
    "ns": "NS",
    "ps": "PS",
    "self_attention": "to itself",
}


def clustering_table(metrics: Mapping[str, Any]) -> Table:
    """The table that ends a clustering, from its ``metrics.json``; figures in percent, those that were measured."""
    names = [str(metrics[key]) for key in ("method", "dataset", "encoder") if metrics.get(key)]
    title = " · ".join([*names, f"seed {metrics['seed']}", f"{metrics['cluster/texts']} texts"])
    shown = [key for key in CLUSTERING_COLUMNS if metrics.get(f"cluster/{key}") is not None]
    if shown:
        title += " · last epoch, %" if "epochs" in metrics else " · %"
    scores = [percent(metrics[f"cluster/{key}"]) for key in shown]
    sizes = [f"{metrics[f'cluster/{key}']}" for key in ("num_clusters", "occupied", "largest", "smallest")]
    header = (*(CLUSTERING_COLUMNS[key] for key in shown), "clusters", "with texts", "largest", "smallest", "time")
    return Table(title, header, ((*scores, *sizes, duration(metrics.get(TOTAL_SECONDS))),))


def worst_confusions(
    labels: ArrayLike,
    predictions: ArrayLike,
    label_names: Sequence[str],
    class_counts: ArrayLike,
    n: int = 5,
    targets: int = 3,
) -> Table:
    """The n classes of lowest F1 among those that occur in ``labels``, with their recall and where their rows went.

    Args:
        labels, predictions: class indices (N,).
        label_names: names (C,).
        class_counts: train rows per class (C,).
        n: classes shown.
        targets: wrongly predicted classes named per class, the most frequent first.
    """
    num_classes = len(label_names)
    scores = class_scores(labels, predictions, num_classes)
    matrix = confusion_matrix(labels, predictions, num_classes)
    counts = np.asarray(class_counts)
    present = np.flatnonzero(scores.references)
    worst = present[np.argsort(scores.f1[present], kind="stable")][:n]
    rows = []
    for index in worst:
        wrong = matrix[index].copy()
        wrong[index] = 0
        went = [label for label in np.argsort(-wrong, kind="stable")[:targets] if wrong[label]]
        shares = ", ".join(f"{label_names[label]} {100 * wrong[label] / matrix[index].sum():.0f} %" for label in went)
        figures = (percent(scores.f1[index]), percent(scores.recall[index]))
        sizes = (str(counts[index]), str(scores.references[index]))
        rows.append((str(label_names[index]), *sizes, *figures, shares or MISSING))
    header = ("class", "train rows", "rows", "F1", "recall", "its rows were taken for")
    return Table(f"Worst {len(rows)} of {len(present)} classes, %", header, tuple(rows))


def worst_labels(rows: Sequence[Mapping[str, Any]], n: int = 5) -> Table:
    """The n labels of lowest F1 among those with rows; ``rows`` as in ``labels.csv``, by `LABEL_COLUMNS`."""
    present = [row for row in rows if int(row["rows"])]
    worst = sorted(present, key=lambda row: float(row["f1"]))[:n]
    sizes, figures = ("train_rows", "rows", "predicted"), ("f1", "precision", "recall")
    cells = [
        (str(row["label"]), *(str(row[key]) for key in sizes), *(percent(float(row[key])) for key in figures))
        for row in worst
    ]
    header = ("label", "train rows", "rows", "predicted", "F1", "precision", "recall")
    return Table(f"Worst {len(worst)} of {len(present)} labels, %", header, tuple(cells))


@dataclass(frozen=True)
class SweepJob:
    """One job of a sweep: its overrides, how it ended, its run folder if it got that far, its error if it failed."""

    overrides: Mapping[str, str]
    status: str
    folder: RunFolder | None = None
    error: str = ""
    seconds: float | None = None
    metrics: Mapping[str, Any] = field(default_factory=dict)


def sweep_table(jobs: Sequence[SweepJob]) -> Table:
    """All jobs of a sweep in order: the keys that vary between jobs, status, main metrics in percent, run or error;
    `marks` where a run has some."""
    keys = list(dict.fromkeys(key for job in jobs for key in job.overrides))
    keys = [key for key in keys if len({job.overrides.get(key) for job in jobs}) > 1]
    measured = [key for key in SWEEP_METRICS if any(job.metrics.get(key) is not None for job in jobs)]
    protocols = {job.metrics.get("protocol") for job in jobs}
    failed = sum(job.status != "finished" for job in jobs)
    title = f"{len(jobs)} jobs, {len(jobs) - failed} finished, {failed} not; figures in %"
    if "published" in protocols:
        title += " · protocol published (epoch chosen on the test split)"
    reads = ("reads",) if marks(job.metrics for job in jobs) else ()
    rows = tuple(_sweep_row(job, keys, measured, bool(reads)) for job in jobs)
    return Table(title, (*keys, "status", *reads, *measured, "time", "run or error"), rows)


def _sweep_row(job: SweepJob, keys: Sequence[str], measured: Sequence[str], has_reads: bool) -> tuple[str, ...]:
    settings = [job.overrides.get(key, MISSING) for key in keys]
    reads = [marks([job.metrics])] if has_reads else []
    figures = [percent(job.metrics.get(key)) for key in measured]
    outcome = job.error or (job.folder.id if job.folder else "")
    return (*settings, job.status, *reads, *figures, duration(job.seconds), outcome)
