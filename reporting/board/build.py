"""The page of a run store: a table of all runs in `index.html`, what one run predicted in a file of its own beside it.

The page reads such a file when a run is opened, so that thousands of runs open at once. Texts lie once for each data
set. All of it opens from the folder: no server, no network.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from markupsafe import Markup

from reporting.page_parts import in_script, page_template, style, table_script
from reporting.tables import marks
from storage.errors import ReportError
from storage.files import write_text
from storage.run_store import RunFolder, list_runs

HERE = Path(__file__).parent
FOLDER = "board"  # of the page, in the run store
COLUMNS = ("method", "dataset", "encoder", "protocol", "seed")
FIGURES = ("accuracy", "macro_f1", "micro_f1")
CLUSTERS, CLUSTERS_PAGE = "clusters.csv", "clusters/index.html"  # of a clustering, in its folder
LONGEST_TEXT = 500  # characters of a text that are shown
UNKNOWN = -1  # a prediction that is none of the labels


def write_board(store: Path, data: Path) -> Path:
    """Write `board/index.html` in a run store and a file for each finished run; returns the page.

    Files of runs that have not changed since stay as they are. A damaged run is left out with a warning.

    Args:
        store: the run store.
        data: folder of prepared data sets; where the one of a run is gone, its rows have numbers in place of texts.

    Raises:
        ReportError: no such folder, or no run in it.
    """
    if not store.is_dir():
        raise ReportError(f"{store}: no such folder; allowed: a run store")
    folder, runs, texts = store / FOLDER, [], _Texts(data, store / FOLDER)
    for run in list_runs(store):
        try:
            _write_details(run, folder / "runs" / f"{run.id}.js", texts)
            runs.append(summary(run))
        except ReportError as error:
            print(f"warning: left out: {error}", file=sys.stderr)
        except (AttributeError, LookupError, TypeError, ValueError) as error:  # of files that hold something else
            print(f"warning: left out: run {run.id} is damaged ({error})", file=sys.stderr)
    if not runs:
        raise ReportError(f"{store}: no runs; allowed: a run store with one at least")
    page = page_template(HERE).render(
        store=store.absolute().name,
        style=style(),
        table_script=table_script(),
        runs=in_script(runs),
        script=Markup((HERE / "board.js").read_text(encoding="utf-8")),  # ours, without any text of a run
    )
    write_text(folder / "index.html", page)
    return folder / "index.html"


def summary(run: RunFolder) -> dict[str, Any]:
    """A row of the table: what identifies a run, how it ended, and its figures."""
    metrics = run.read_metrics()
    split = "test" if "test/accuracy" in metrics else "val"
    written = datetime.fromtimestamp((run.path / "metrics.json").stat().st_mtime)
    figures = {
        f"{name}{end}": value
        for name in FIGURES
        for end in ("", "_low", "_high")
        if isinstance(value := metrics.get(f"{split}/{name}{end}"), float)
    }
    return {
        "id": run.id,
        "status": run.status,
        "written": f"{written:%Y-%m-%d %H:%M}",
        "split": split,
        "seconds": metrics.get("seconds/total"),
        "val": metrics.get("val/macro_f1"),
        "error": metrics.get("error"),
        **{name: metrics.get(name) for name in COLUMNS},
        "reads": marks([metrics]),
        **figures,
        **_cluster_figures(run, metrics),
    }


def _cluster_figures(run: RunFolder, metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Of a clustering, beside what classifiers have; the scores of one with labels. Nothing of another run."""
    if metrics.get("cluster/num_clusters") is None:
        return {}
    largest, texts = metrics.get("cluster/largest"), metrics.get("cluster/texts")
    figures = {
        "accuracy": metrics.get("cluster/acc"),
        "nmi": metrics.get("cluster/nmi"),
        "clusters": metrics["cluster/num_clusters"],
        "largest": largest / texts if largest and texts else None,
        "page": run.has(CLUSTERS_PAGE) or None,
    }
    return {name: value for name, value in figures.items() if value is not None}


def _write_details(run: RunFolder, file: Path, texts: _Texts) -> None:
    sources = [run.path / "metrics.json", run.path / CLUSTERS, Path(__file__)]  # names of clusters change; so does this
    changed = max(source.stat().st_mtime for source in sources if source.exists())
    is_written = file.exists() and file.stat().st_mtime >= changed
    if run.status == "finished" and not is_written:
        run.check()
        write_text(file, f"board.add({in_script(details(run, texts))});\n")


def details(run: RunFolder, texts: _Texts) -> dict[str, Any]:
    """What the page shows of one run: the line that repeats it, its history, and labels and predictions of each row.

    Labels are indices of `labels`; of texts with several labels, lists of them. A clustering has clusters in place of
    predictions.
    """
    metrics = run.read_metrics()
    environment = run.read_json("environment.json") if run.has("environment.json") else {}
    shown: dict[str, Any] = {"id": run.id, "command": environment.get("command"), "config": run.read_config()}
    if run.has("history.csv"):
        epochs = run.read_csv("history.csv", "epoch")
        shown["history"] = [_numbers(row, [key for key in row if key != "step"]) for row in epochs]
    if run.has("curve.csv"):
        figures = ("accuracy", "macro_f1", "logistic_accuracy", "logistic_macro_f1")
        kept_keys = ("labels", *(f"{split}/{figure}" for split in ("test", "val") for figure in figures))
        points = run.read_csv("curve.csv", "labels", "run")
        shown["by_labels"] = [_numbers(row, kept_keys) for row in points]
        shown["last_run"] = points[-1]["run"]
    labels = metrics.get("label_names")
    fingerprint = str(environment.get("corpus_fingerprint"))[:16]
    if run.has(CLUSTERS):
        shown |= _assignments(run) | {"data": f"{fingerprint}-all", "texts": texts.file(fingerprint, "all")}
    elif labels and run.has("predictions.csv"):
        split = "test" if "test/accuracy" in metrics else "val"
        rows = [row for row in run.read_csv("predictions.csv", "label", "prediction") if row.get("split") == split]
        indices = run.read_json("kept_indices.json") if run.has("kept_indices.json") else {}
        kept, table = indices.get(split), "train" if split == "val" and not _is_shipped(indices) else split
        number = {name: place for place, name in enumerate(labels)}
        shown |= {
            "labels": labels,
            "rows": [kept[int(row["index"])] if kept else int(row["index"]) for row in rows],  # of the prepared table
            "truth": [_indices(row["label"], number) for row in rows],
            "predicted": [_indices(row["prediction"], number) for row in rows],
            "data": f"{fingerprint}-{split}-of-{table}",
            "texts": texts.file(fingerprint, table),
        }
        if run.has("embedding_map.csv"):
            place = {int(row["index"]): number for number, row in enumerate(rows)}
            points = run.read_csv("embedding_map.csv", "split", "index", "x", "y")
            at = [(place.get(int(row["index"])), row) for row in points if row["split"] == split]
            shown["map"] = [[number, float(row["x"]), float(row["y"])] for number, row in at if number is not None]
    return shown


def _numbers(row: Mapping[str, str], keys: Iterable[str]) -> dict[str, float]:
    """The numbers of a row under these keys; no empty cell, nor NaN or infinity, of which JSON knows nothing."""
    numbers = {key: float(row[key]) for key in keys if row.get(key)}
    return {key: number for key, number in numbers.items() if math.isfinite(number)}


def _assignments(run: RunFolder) -> dict[str, Any]:
    """Of each text of a clustering the index of its cluster in `clusters`, by name, and of its label, if it has one."""
    described = run.read_csv(CLUSTERS, "cluster")
    number = {row["cluster"]: place for place, row in enumerate(described)}
    rows = run.read_csv("predictions.csv", "index", "label", "cluster")
    shown = {
        "clusters": [row.get("name") or f"cluster {row['cluster']}" for row in described],
        "rows": [int(row["index"]) for row in rows],
        "assigned": [number[row["cluster"]] for row in rows],
    }
    if names := sorted({row["label"] for row in rows} - {""}):
        labels = {name: place for place, name in enumerate(names)}
        shown |= {"labels": names, "truth": [labels.get(row["label"], UNKNOWN) for row in rows]}
    return shown


def _indices(value: str, number: Mapping[str, int]) -> int | list[int]:
    """Index of a label, or the list of those of a JSON list; a label may look like a list itself."""
    if value in number:
        return number[value]
    try:
        several = json.loads(value)
    except ValueError:
        return UNKNOWN
    return [number.get(str(name), UNKNOWN) for name in several] if isinstance(several, list) else UNKNOWN


def _is_shipped(indices: Mapping[str, list[int]]) -> bool:
    """Whether the validation rows are of a table of their own: those of the train table are rows that do not train."""
    learned = {*indices.get("train", ()), *indices.get("unlabelled", ())}
    return not learned.isdisjoint(indices.get("val", ()))


class _Texts:
    """Texts of the prepared data sets, as files beside the page."""

    def __init__(self, data: Path, folder: Path) -> None:
        self.folder = folder
        self.prepared: dict[str, Path] = {}
        for meta in sorted(data.glob("*/meta.json")):
            try:
                self.prepared[str(json.loads(meta.read_text())["fingerprint"])[:16]] = meta.parent
            except (OSError, ValueError, KeyError, TypeError):
                continue  # a data set that is damaged is for those who train on it to report

    def file(self, fingerprint: str, table: str) -> str | None:
        """Name of the file with the texts of a table, written where it is not there; None: the data set is gone."""
        if fingerprint not in self.prepared:
            return None
        if not (self.prepared[fingerprint] / f"{table}.arrow").is_file():
            table = "train"  # which holds all rows of folds and of a clustering
        source = self.prepared[fingerprint] / f"{table}.arrow"
        if not source.is_file():
            return None
        name = f"texts/{fingerprint}-{table}.js"
        if not (self.folder / name).exists():
            if (column := _column(source)) is None:
                return None
            texts = [text[:LONGEST_TEXT] for text in column]
            write_text(self.folder / name, f"board.addTexts({in_script(name)}, {in_script(texts)});\n")
        return name


def _column(source: Path) -> list[str] | None:
    """The texts; None where the rows are no texts."""
    import pyarrow as pa

    with pa.memory_map(str(source)) as file:
        table = pa.ipc.open_file(file).read_all()
        return table.column("text").to_pylist() if "text" in table.column_names else None
