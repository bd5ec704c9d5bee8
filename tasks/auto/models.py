"""The folder `model/`: the recommended candidate fitted on all rows, as a finished run that other tasks open."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
import yaml

from callbacks.checkpoint import AtomicCheckpointIO
from engine.finished import BEST, WORDS
from engine.identity import completed
from engine.plan import Plan
from engine.retrieval import FOLDER as DATASTORE
from engine.retrieval import model_hash
from lightning_modules.base import ClassifierModule
from lightning_modules.encoders.words import WordEncoder
from retrieval import Datastore
from storage.run_store import RunFolder
from tasks.auto.calibration import Calibration
from tasks.auto.cheap import Linear, Neighbours


def write_linear(run: RunFolder, plan: Plan, names: Sequence[str], counts: np.ndarray, scorer: Linear,
                 calibration: Calibration, more: dict[str, Any]) -> None:  # fmt: skip
    """A classifier over a frozen encoder, its calibration in weight and bias."""
    module = plan.bare_module(torch.from_numpy(counts), names)
    with torch.no_grad():
        module.classifier.weight.copy_(torch.from_numpy(scorer.weight * calibration.scale))
        module.classifier.bias.copy_(torch.from_numpy(scorer.bias * calibration.scale + calibration.offset))
    _write(run, plan, module, names, counts, more)


def write_module(run: RunFolder, plan: Plan, module: ClassifierModule, names: Sequence[str], counts: np.ndarray,
                  calibration: Calibration, more: dict[str, Any]) -> None:  # fmt: skip
    """The module of a run, its calibration in the classifier."""
    module.calibrate(calibration.scale, torch.from_numpy(calibration.offset))
    _write(run, plan, module, names, counts, more)


def write_neighbours(run: RunFolder, plan: Plan, names: Sequence[str], counts: np.ndarray, scorer: Neighbours,
                     texts: Sequence[str], more: dict[str, Any]) -> None:  # fmt: skip
    """A datastore of all rows, whose vote alone decides."""
    module = plan.bare_module(torch.from_numpy(counts), names)
    with torch.no_grad():
        module.classifier.weight.zero_()
        module.classifier.bias.zero_()
    vote = {"num_neighbours": scorer.k, "temperature": scorer.temperature, "lam": 1.0}
    _save(run, plan, module)
    config = {"run": run.id, "encoder": dict(plan.plain["encoder"]), "max_length": plan.dataset.max_length}
    labels = [[int(label)] for label in scorer.labels]
    Datastore.create(run.path / DATASTORE, model_hash(run, plan), config, list(names), scorer.rows, labels, list(texts))
    _finish(run, names, counts, {f"retrieval/{key}": value for key, value in vote.items()} | more)


def _write(run: RunFolder, plan: Plan, module: ClassifierModule, names: Sequence[str], counts: np.ndarray,
           more: dict[str, Any]) -> None:  # fmt: skip
    _save(run, plan, module)
    _finish(run, names, counts, more)


def _begin(run: RunFolder, plain: Mapping[str, Any]) -> None:
    if run.path.exists():
        shutil.rmtree(run.path)
    run.path.mkdir(parents=True)
    run.write_text("config.yaml", yaml.safe_dump(completed(plain), sort_keys=False, allow_unicode=True))


def _save(run: RunFolder, plan: Plan, module: ClassifierModule) -> None:
    _begin(run, plan.plain)
    module.run_id = run.id
    checkpoint: dict[str, Any] = {"state_dict": module.state_dict()}
    module.on_save_checkpoint(checkpoint)
    if isinstance(plan.encoder, WordEncoder):
        plan.encoder.save(run.path / WORDS)
    AtomicCheckpointIO().save_checkpoint(checkpoint, run.path / BEST)


def _finish(run: RunFolder, names: Sequence[str], counts: np.ndarray, more: dict[str, Any]) -> None:
    run.finish({"label_names": list(names), "class_counts": counts.tolist(), **more})
