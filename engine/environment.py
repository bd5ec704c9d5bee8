"""What a run was made with: enough to make it again elsewhere."""

from __future__ import annotations

import platform
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lightning.pytorch as pl
import torch

from datamodules.corpus import Corpus
from storage.run_store import RunFolder

if TYPE_CHECKING:
    from engine.plan import Plan

PACKAGES = ("torch", "lightning", "transformers", "tokenizers", "numpy", "scikit-learn", "hydra-core", "torchmetrics")
ENVIRONMENT = "environment.json"
ENCODER_HASH = "encoder_weights_sha256"
ROOT = Path(__file__).resolve().parents[1]
CODE = ("*.py", "*.yaml", "*.toml", "*.lock")


def environment(plan: Plan, corpus: Corpus, trainer: pl.Trainer | None = None) -> dict[str, Any]:
    """Versions, commit, machine, and hashes of data and weights; without a trainer nothing of how it trained."""
    trained = {} if trainer is None else {
        "precision": trainer.precision,
        "accelerator": type(trainer.accelerator).__name__,
        "devices": trainer.num_devices,
        "nodes": trainer.num_nodes,
    }
    return {
        "command": plan.command,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: version(name) for name in PACKAGES},
        **_code(),
        "inputs": plan.inputs(),
        "threads": torch.get_num_threads(),
        **trained,
        "corpus_fingerprint": corpus.fingerprint,
        "source_sha256": {file.path: file.sha256 for file in plan.dataset.sources},
        ENCODER_HASH: plan.encoder.weights_hash() if plan.encoder else None,
    }


def write_environment(run: RunFolder, now: dict[str, Any], goes_on: bool) -> None:
    """Keep it with the run; if that goes on, its code is changed if that of either start was, and known if both are."""
    if goes_on and run.has(ENVIRONMENT):
        earlier = run.read_json(ENVIRONMENT)
        commits = [*earlier.get("earlier_commits", ()), earlier.get("commit")]
        others = [commit for commit in dict.fromkeys(commits) if commit not in (None, now["commit"])]
        states = (now["changed"], earlier.get("changed"))
        now = now | {"changed": True if True in states else None if None in states else False}
        now |= {"earlier_commits": others} if others else {}
    run.write_json(ENVIRONMENT, now)


def _code() -> dict[str, Any]:
    """The commit of the code, and whether the work tree has changes that it does not hold; None: no checkout."""
    unknown = {"commit": None, "changed": None}
    changes = ("status", "--porcelain", "--", *CODE, ":!reports")
    try:
        place, changed = (
            subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
            for words in (("rev-parse", "--show-toplevel", "HEAD"), changes)
        )
    except (OSError, subprocess.CalledProcessError):
        return unknown
    checkout, _, head = place.rpartition("\n")
    if Path(checkout).resolve() != ROOT:  # installed, in an environment inside somebody's own repository
        return unknown
    return {"commit": head, "changed": bool(changed)}
