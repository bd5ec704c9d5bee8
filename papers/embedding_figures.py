"""t-SNE panels of finished runs whose weights are in the run store (SharpReCL Fig. 4, ACL Fig. 5, AECL Fig. 4).

    python -m papers.embedding_figures reports/BUDGET [RUNS] [paths.data=… paths.cache=… paths.source_mirror=…]

Reads reports/BUDGET/grid.json; the coordinates are kept beside the figures as packed CSV.
"""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import yaml

from papers.grid import HERE, load_grid
from papers.paper_report import needed_grid
from reporting.arguments import run_command, words_and_pairs
from reporting.curves import embedding_figure
from storage.files import replacing
from storage.run_store import RunFolder, csv_text

if TYPE_CHECKING:
    from engine.plan import Plan

WEIGHTS = ("checkpoints/best.ckpt", "checkpoints/final.ckpt", "model.npz")  # any of them: the run can be opened
SHOWN_CLASSES = 10  # of more, the five largest and the five smallest, as ACL's figure has it
SHOWN_ROWS = 3000  # of more, so many at equal distances
SEED = 0


def opened(run: str | Path, overrides: Sequence[str] = ()) -> tuple[RunFolder, Plan]:
    """A finished run and its plan, as `open_run`.

    Args:
        overrides: where runs, data, cache and source files lie, as `paths.data=…`.
    """
    from engine.finished import open_run
    from engine.identify import compose_typed

    return open_run(compose_typed([*overrides, f"run={run}"]), clusters_too=True)


def embeddings_of(run: RunFolder, overrides: Sequence[str] = ()) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Embeddings (N, D), labels (N,) and label names: of the test rows by a classifier's selected weights, of all rows
    by the last weights of a clustering (where it learns representations, those).

    Args:
        overrides: where data, cache and source files lie, as `paths.data=…`.
    """
    run, plan = opened(run.path, overrides)
    return (_clustering_embeddings if plan.serves == "clustering" else _test_embeddings)(run, plan)


def _test_embeddings(run: RunFolder, plan: Plan) -> tuple[np.ndarray, np.ndarray, list[str]]:
    import torch

    from engine.finished import load_weights

    datamodule = plan.datamodule(plan.corpus())
    module = plan.module(datamodule)
    load_weights(module, run, plan)
    module.eval()
    with torch.inference_mode():
        batches = [(module(batch)["embeddings"], batch["labels"]) for batch in datamodule.test_dataloader()]
    embeddings, labels = (torch.cat(parts).float().numpy() for parts in zip(*batches, strict=True))
    return embeddings, labels.astype(int), list(datamodule.label_names)


def _clustering_embeddings(run: RunFolder, plan: Plan) -> tuple[np.ndarray, np.ndarray, list[str]]:
    import torch

    from engine.assign import FINAL
    from engine.finished import load_weights

    corpus = plan.corpus(whole=True)
    datamodule = plan.datamodule(corpus)
    labels, names = corpus.table("train")["label"].to_numpy(), list(corpus.label_names)
    if not plan.trains:
        return np.array(plan.features(datamodule)["train"][0]), labels, names
    module = plan.clustering_module(run.read_metrics()["cluster/num_clusters"])
    load_weights(module, run, plan, FINAL, more_allowed=True)
    module.eval()
    if module.encoder.frozen:
        datamodule.use_features(plan.features(datamodule))
    parts, rows = [], []
    with torch.inference_mode():
        for batch in datamodule.ordered_loader():
            output = module(batch)
            parts.append(output.get("representations", output["embeddings"]).float().numpy())
            rows.append(batch["indices"].numpy())
    return np.concatenate(parts), labels[np.concatenate(rows)], names


def shown_classes(counts: Sequence[int]) -> list[int]:
    """Class numbers to draw, the largest first."""
    order = np.argsort(-np.asarray(counts), kind="stable").tolist()
    half = SHOWN_CLASSES // 2
    return order if len(order) <= SHOWN_CLASSES else order[:half] + order[-half:]


def coordinates(embeddings: np.ndarray, metric: str = "cosine") -> np.ndarray:
    """t-SNE of embeddings (N, D): (N, 2); the same rows give the same points."""
    from sklearn.manifold import TSNE

    perplexity = min(30.0, max(2.0, (len(embeddings) - 1) / 3))
    return TSNE(perplexity=perplexity, metric=metric, init="random", random_state=SEED).fit_transform(embeddings)


def draw(folder: Path, runs: Path, overrides: Sequence[str] = ()) -> list[Path]:
    """Every figure of ``definitions/embeddings.yaml`` that has runs here; returns the SVG files."""
    tables = needed_grid(folder)["tables"]
    figures = yaml.safe_load((HERE / "definitions" / "embeddings.yaml").read_text(encoding="utf-8"))
    files = []
    for spec in figures:
        titles = {row.key: row.title for row in load_grid(spec["table"]).rows}
        cells = {cell["row"]: cell for cell in tables.get(spec["table"], ()) if cell["column"] == spec["column"]}
        panels, names = {}, {}
        for row in (row for row in spec["rows"] if row in cells):
            run = RunFolder(runs / cells[row]["runs"].get(str(SEED), "none"))
            if not any((run.path / name).is_file() for name in WEIGHTS):
                print(f"{spec['name']}: {titles[row]} has no weights in {runs}")
                continue
            embeddings, labels, label_names = embeddings_of(run, overrides)
            counts = run.read_metrics().get("class_counts") or np.bincount(labels).tolist()
            subset = np.flatnonzero(np.isin(labels, shown := shown_classes(counts)))
            subset = subset[:: max(1, -(-len(subset) // SHOWN_ROWS))]
            panels[titles[row]] = coordinates(embeddings[subset]), labels[subset]
            names = {label: label_names[label] for label in shown}
        if panels:
            file = folder / "figures" / f"embeddings-{spec['name']}"
            rows = [(t, *p, names[int(y)]) for t, (xy, ys) in panels.items() for p, y in zip(xy, ys, strict=True)]
            with replacing(file.with_suffix(".csv.gz")) as packed:
                packed.write(gzip.compress(csv_text(rows, ("row", "x", "y", "label")).encode(), mtime=0))
            files.append(embedding_figure(panels, names, file))
    return [file for file in files if file is not None]


def main(arguments: Sequence[str]) -> None:
    (folder, *stores), overrides = words_and_pairs(arguments)
    for path in draw(Path(folder), Path(stores[0] if stores else "runs"), overrides):
        print(path)


if __name__ == "__main__":
    run_command(main, __doc__)
