"""Runs of a made-up grid, Table 2 of SharpReCL on one column."""

from dataclasses import replace

import yaml

from papers.claims import Claim
from storage.run_store import RunFolder

CE = (0.60, 0.62, 0.61, 0.59, 0.60)
SHARP = (0.65, 0.68, 0.66, 0.63, 0.66)
DICE = (0.61, 0.60)


def make_run(store, name, seed, value, **more):
    run = RunFolder(store / name)
    metrics = {"test/accuracy": value, "test/macro_f1": value - 0.1, "class_counts": [30, 20, 10]}
    names = {"dataset": "trec", "label_names": ["a", "b", "c"], "protocol": "clean", "encoder": "minilm", "seed": seed}
    run.write_metrics({**metrics, **names, **more}, status="finished")
    encoder = {"name": "minilm", "train": "full"}
    config = {"encoder": encoder, "trainer": {"max_epochs": 6}, "sampler": {"batch_size": 64}}
    run.write_text("config.yaml", yaml.safe_dump(config))
    run.write_json("environment.json", {"changed": False})
    return run


def entry(row, column, names, problem=None):
    runs = {str(seed): name for seed, name in enumerate(names)}
    return {"row": row, "column": column, "command": f"method={row}", "runs": runs, "problem": problem}


def write_runs(folder):
    """Table 2 on TREC ir=50: cross-entropy and SharpReCL whole, Dice 2 of 5 seeds, SimCSE impossible."""
    cells = []
    for row, values in (("ce", CE), ("sharprecl", SHARP), ("dice", DICE)):
        for seed, value in enumerate(values):
            make_run(folder, f"{row}-{seed}", seed, value)
        cells.append(entry(row, "trec_50", [f"{row}-{seed}" for seed in range(5)]))
    return [*cells, entry("simcse", "trec_50", [], "method=simcse: unknown choice")]


def claim(**changes):
    base = Claim("c", "P", "a is better", "here", "sharprecl_2", "greater", "sharprecl", ("test/accuracy",), ("ce",))
    return replace(base, **changes)
