"""The page of a clustering, `clusters/index.html`, the names of its clusters, and its clusters merged to fewer."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clustering.landscape import near_clusters
from clustering.number import NEARLY_BEST
from clustering.topics import merged_words
from engine.assign import CLUSTERS, OUTLIERS, described_clusters
from engine.plan import Plan
from reporting.clusters.build import clusters_page
from reporting.escape import shortened
from storage.run_store import RunFolder
from tasks.cluster.names import group_names
from tasks.cluster.space import Space

PAGE = "clusters/index.html"
LONGEST = 300  # characters of a text that are shown
MOST_OUTLIERS = 50
NEAR = 5  # nearest clusters of each


def write_page(plan: Plan, run: RunFolder) -> Path:
    """Write the page of a finished run, with names and level as the line asks for them now; returns it.

    The names go into `clusters.csv` too, where `task=predict` reads them. `cluster.level` also writes
    `clusters/level_K.csv`: of each text the group that its cluster is in when K are left.

    Raises:
        ValueError: the run keeps no map, names or level do not fit it.
    """
    space = Space.load(run)
    texts = run.read_csv("predictions.csv", "index", "label", "cluster", "text")
    clusters = {int(row["cluster"]): row for row in described_clusters(run)}
    assignments = np.array([int(row["cluster"]) for row in texts])
    places = space.place(assignments)
    merged = merged_words([row["text"] for row in texts], places, space.steps)
    own = [clusters[number] for number in space.clusters.tolist()]
    names = group_names(plan, run, space, own, np.bincount(places), merged)
    if level := plan.plain["cluster"]["level"]:
        _write_level(run, space, texts, assignments, names, level)
    name_of_cluster = dict(zip(space.clusters.tolist(), names, strict=False))
    rows = [row | {"name": name_of_cluster.get(number, OUTLIERS)} for number, row in clusters.items()]
    run.write_csv(CLUSTERS, ([*row.values()] for row in rows), [*rows[0]])
    content = page_content(run, space, texts, clusters, assignments, names, merged) | {"level": level}
    curve = (run.path / "clusters/number.svg").read_text() if run.has("clusters/number.svg") else ""
    run.write_text(PAGE, clusters_page(content, curve))
    return run.path / PAGE


def _write_level(
    run: RunFolder,
    space: Space,
    texts: list[dict[str, str]],
    assignments: NDArray[np.int64],
    names: list[str],
    level: int,
) -> None:
    places, groups = space.at_level(assignments, level)
    called = [*(names[group] for group in groups.tolist()), OUTLIERS]
    rows = (
        (row["index"], row["label"], place, called[place], row["text"])
        for row, place in zip(texts, places.tolist(), strict=True)
    )
    run.write_csv(f"clusters/level_{level}.csv", rows, ("index", "label", "cluster", "name", "text"))


def _central(row: dict[str, str]) -> list[str]:
    return [row[name] for name in ("central", "central_2", "central_3") if row[name]]


def page_content(
    run: RunFolder,
    space: Space,
    texts: list[dict[str, str]],
    clusters: dict[int, dict[str, str]],
    assignments: NDArray[np.int64],
    names: list[str],
    merged: list[tuple[str, ...]],
) -> dict[str, Any]:
    """What the page shows, as plain values; clusters and texts by their places, outliers as the last cluster."""
    metrics, places, far = run.read_metrics(), space.place(assignments), space.far_out(assignments)
    labels = sorted({row["label"] for row in texts} - {""})
    code = {label: number for number, label in enumerate(labels)}
    counts: list[Counter[int]] = [Counter() for _ in range(len(space.clusters) + 1)]
    for place, row in zip(places.tolist(), texts, strict=True):
        counts[place][code.get(row["label"], -1)] += 1
    near = near_clusters(space.centres, NEAR).tolist()
    shown = [
        {
            "number": number,
            "name": names[place],
            "words": clusters[number]["words"].split(),
            "central": [shortened(text, LONGEST) for text in _central(clusters[number])],
            "far": int(far[places == place].sum()),
            "labels": sorted(counts[place].items(), key=lambda item: -item[1]),
            "near": near[place] if near else [],
        }
        for place, number in enumerate(space.clusters.tolist())
    ]
    outermost = np.flatnonzero(far)
    outermost = outermost[np.argsort(-space.distances[outermost], kind="stable")][:MOST_OUTLIERS]
    return {
        "run": run.id,
        "dataset": metrics.get("dataset"),
        "method": metrics.get("method"),
        "scores": {
            name: metrics[f"cluster/{name}"]
            for name in ("acc", "nmi", "ari", "purity", "acc_assigned", "nmi_assigned")
            if metrics.get(f"cluster/{name}") is not None
        },
        "texts": len(texts),
        "nearly_best": NEARLY_BEST,
        "labels": labels,
        "clusters": shown,
        "in_none": int(sum(counts[-1].values())),
        "steps": space.steps.tolist(),
        "merged": [{"name": name, "words": words} for name, words in zip(names[len(shown) :], merged, strict=True)],
        "points": [
            [round(float(x), 2), round(float(y), 2), int(places[row]), code.get(texts[row]["label"], -1), int(far[row]),
             shortened(texts[row]["text"], LONGEST)]
            for row, (x, y) in zip(space.rows.tolist(), space.points, strict=True)
        ],
        "far": int(far.sum()),
        "outliers": [[int(places[row]), shortened(texts[row]["text"], LONGEST)] for row in outermost.tolist()],
    }  # fmt: skip
