"""How new texts fall into the clusters of a finished run: shares, distances, and what lies near to none."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from omegaconf import DictConfig

from clustering.drift import Drift, measure_drift
from clustering.kmeans import distances_to_own, nearest, without_direction
from clustering.methods import DensityClustering
from engine.assign import CLUSTERS, Assigner
from engine.composition import target_class
from engine.finished import open_run
from engine.plan import Plan
from reporting.escape import shortened
from reporting.tables import Table
from storage.run_store import RunFolder
from storage.tables import check_is_other, check_output, check_replaces, is_blank, write_table
from tasks.cluster.space import FILE, Space
from tasks.predict import pieces, read_as_learned

SHOWN = 20  # clusters in the printed table
COLUMNS = ("cluster", "words", "share_before", "share_after", "texts_before", "texts_after")


def drift(config: DictConfig, overrides: list[str]) -> Path:
    """Print how the texts of `input` differ from those of the clustering `run`; `output`, a CSV, gets every cluster.

    Rows without a text are said and left out.

    Raises:
        ValueError: no input, no clustering, a run without a map, one of HDBSCAN by an earlier version, or rows that
            cannot be read; the line names file and line.
    """
    if config.input is None:
        raise ValueError("input: task=drift needs the file with new texts, or - for stdin")
    if config.output is not None:
        check_output(config.output)
        check_is_other(config.input, config.output)
        check_replaces(config.output, ("share_before",))
    run, plan = open_run(config, clusters_too=True)
    if plan.serves != "clustering":
        raise ValueError(f"run={run.id}: a classifier; allowed with task=drift: a run of task=cluster")
    if plan.plain["trainer"]["num_threads"]:
        torch.set_num_threads(plan.plain["trainer"]["num_threads"])
    space = Space.load(run)
    before = _own_texts(run, plan, space)
    after = _new_texts(config, run, plan, space, overrides)
    result = measure_drift(before, after, np.append(space.fences, -1), _rng(plan))
    rows = list(_rows(run, space, result))
    _show(run, result, rows)
    if config.output is not None:
        write_table(config.output, iter(rows), COLUMNS)
    return run.path


def _rng(plan: Plan) -> np.random.Generator:
    return np.random.default_rng(plan.config.seed)


def _own_texts(run: RunFolder, plan: Plan, space: Space) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Place (N,) and distance (N,) of each text of the run by the rule for new texts: another rule is no drift."""
    if space.new_clusters is not None and space.new_distances is not None:
        return space.place(space.new_clusters), space.new_distances
    if target_class(plan.plain["method"]) is DensityClustering:
        problem = f"{FILE} says of no text where it would be as a new one, an earlier version did it"
        raise ValueError(f"run={run.id}: {problem}; allowed: force=true repeats it")
    kept = run.read_csv("predictions.csv", "cluster")
    return space.place(np.array([int(row["cluster"]) for row in kept])), space.distances


def _new_texts(
    config: DictConfig, run: RunFolder, plan: Plan, space: Space, overrides: Sequence[str]
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Place of each new text's cluster (N,), and its distance to that centre, of an outlier to the nearest (N,)."""
    config, table = read_as_learned(config, plan, "input", overrides, blank_allowed=True)
    assigner, parts = Assigner(run, plan), []
    blank: list[str] = []  # where the rows without a text are
    for piece in pieces(table.rows):
        rows = [(where, plan.dataset.input_of(row, config.text_column)) for where, row in piece]
        blank += [where for where, text in rows if is_blank(text)]
        if not (texts := [text for _, text in rows if not is_blank(text)]):
            continue
        clusters, _, vectors = assigner.assign(texts)
        places = space.place(clusters)
        own = np.where(places < len(space.centres), places, nearest(vectors, space.centres)[0])
        distances = np.sqrt(distances_to_own(vectors, space.centres, own))
        distances[without_direction(vectors)] = np.inf
        parts.append((places, distances))
    if not parts:
        raise ValueError(f"{config.input}: found no text, allowed: at least one")
    if blank:
        print(f"warning: {blank[0]}: {len(blank):,} rows without a text are left out", file=sys.stderr)
    places, distances = (np.concatenate(part) for part in zip(*parts, strict=True))
    return places, distances


def _rows(run: RunFolder, space: Space, result: Drift) -> Iterator[dict[str, Any]]:
    """A row a cluster, that whose share changed most first; the last of `result` are outliers."""
    words = {row["cluster"]: row["words"] for row in run.read_csv(CLUSTERS, "cluster", "words")}
    before, after = result.before / result.before.sum(), result.after / result.after.sum()
    for place in np.argsort(-np.abs(after - before), kind="stable").tolist():
        number = str(space.clusters[place]) if place < len(space.clusters) else "none"
        if number == "none" and not result.before[place] + result.after[place]:
            continue
        yield {
            "cluster": number,
            "words": words.get(number, ""),
            "share_before": round(float(before[place]), 6),
            "share_after": round(float(after[place]), 6),
            "texts_before": int(result.before[place]),
            "texts_after": int(result.after[place]),
        }


def _show(run: RunFolder, result: Drift, rows: list[dict[str, Any]]) -> None:
    cells = tuple(
        (
            row["cluster"],
            f"{100 * row['share_before']:.1f}",
            f"{100 * row['share_after']:.1f}",
            str(row["texts_after"]),
            shortened(row["words"], 60),
        )
        for row in rows[:SHOWN]
    )
    shown = f"{len(cells)} of {len(rows)} clusters, the most changed first"
    Table(f"{run.id}: {shown}", ("cluster", "share before, %", "now, %", "new texts", "words"), cells).show()
    far = f"{100 * result.far_before:.1f} % before, {100 * result.far_after:.1f} % now"
    print(f"\nshares of the clusters: p = {result.share_p:.2g} (chi-squared, tables drawn with the same margins)")
    apart = f"differ by {result.distance:.3f}, p = {result.distance_p:.2g}"
    print(f"distances to the centres: {apart} (Kolmogorov-Smirnov)")
    print(f"far out or in no cluster: {far}, p = {result.far_p:.2g} (Fisher)")
