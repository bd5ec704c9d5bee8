"""The folder `model/`: the recommended candidate fitted on all rows, as a finished run that other tasks open."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
import yaml

from callbacks.checkpoint import AtomicCheckpointIO
from engine.environment import ENCODER_HASH, ENVIRONMENT
from engine.finished import BEST, DESCRIPTIONS, WORDS
from engine.identity import completed
from engine.plan import Plan
from engine.retrieval import FOLDER as DATASTORE
from engine.retrieval import chosen_vote, model_hash
from lightning_modules.base import ClassifierModule
from lightning_modules.encoders.words import WordEncoder
from retrieval import Datastore, Vote
from storage.run_store import DATA, RunFolder
from tasks.auto.candidates.calibration import AnyCalibration
from tasks.auto.candidates.cheap import Linear, Neighbours, Sum


def write_linear(run: RunFolder, plan: Plan, names: Sequence[str], counts: np.ndarray, scorer: Linear,
                 calibration: AnyCalibration, more: dict[str, Any]) -> None:  # fmt: skip
    """A classifier over a frozen encoder, its calibration in weight and bias."""
    module = plan.bare_module(torch.from_numpy(counts), names)
    with torch.no_grad():
        module.classifier.weight.copy_(torch.from_numpy(scorer.weight * calibration.scale))
        module.classifier.bias.copy_(torch.from_numpy(scorer.bias * calibration.scale + calibration.offset))
    _write(run, plan, module, names, counts, _thresholds(calibration) | more)


def write_linear_words(run: RunFolder, plan: Plan, names: Sequence[str], counts: np.ndarray, scorer: Sum,
                       calibration: AnyCalibration, more: dict[str, Any]) -> None:  # fmt: skip
    """Linear classifiers over a frozen encoder and over words, calibrated."""
    module: Any = plan.bare_module(torch.from_numpy(counts), names)
    (weight, bias), (of_words, free) = scorer.summed("embeddings"), scorer.summed("counts")
    (frequency,) = (member.inverse_frequency for part, member, _ in scorer.scorers if part == "counts")
    on_embeddings = torch.from_numpy(weight), torch.from_numpy(bias + free)
    module.place(on_embeddings, torch.from_numpy(of_words), torch.from_numpy(frequency))
    write_module(run, plan, module, names, counts, calibration, more)


def write_module(run: RunFolder, plan: Plan, module: ClassifierModule, names: Sequence[str], counts: np.ndarray,
                 calibration: AnyCalibration, more: dict[str, Any]) -> None:  # fmt: skip
    """The module of a run, its calibration in the classifier."""
    module.calibrate(calibration.scale, torch.from_numpy(calibration.offset))
    _write(run, plan, module, names, counts, _thresholds(calibration) | more)


def _thresholds(calibration: AnyCalibration, name: str = "threshold") -> dict[str, Any]:
    """What prediction reads where texts have several labels."""
    return {name: calibration.thresholds.tolist()} if len(calibration.thresholds) else {}


def write_neighbours(run: RunFolder, plan: Plan, names: Sequence[str], counts: np.ndarray, scorer: Neighbours,
                     texts: Sequence[str], calibration: AnyCalibration, more: dict[str, Any]) -> None:  # fmt: skip
    """A datastore of all rows, whose vote alone decides."""
    module = plan.bare_module(torch.from_numpy(counts), names)
    with torch.no_grad():
        module.classifier.weight.zero_()
        module.classifier.bias.zero_()
    vote = Vote(scorer.k, scorer.temperature, 1.0)
    labels = [np.flatnonzero(row).tolist() if scorer.labels.ndim == 2 else [int(row)] for row in scorer.labels]
    _save(run, plan, module)
    _write_datastore(run, plan, names, scorer.rows, labels, texts)
    _finish(run, plan, names, counts, _vote_metrics(vote, calibration) | more)


def write_voting_module(run: RunFolder, plan: Plan, module: ClassifierModule, names: Sequence[str], counts: np.ndarray,
                        trained: RunFolder, calibration: AnyCalibration, more: dict[str, Any]) -> None:  # fmt: skip
    """The module of a run with the datastore and the vote of that run."""
    store = Datastore.open(trained.path / DATASTORE, model_hash(trained, plan))
    labels = [np.flatnonzero(row).tolist() for row in store.labels(np.arange(len(store)))]
    _save(run, plan, module)
    _write_datastore(run, plan, names, np.concatenate(store.vectors()), labels, store.texts())
    _finish(run, plan, names, counts, _vote_metrics(chosen_vote(trained.read_metrics()), calibration) | more)


def _write_datastore(run: RunFolder, plan: Plan, names: Sequence[str], rows: np.ndarray, labels: list[list[int]],
                     texts: Sequence[str]) -> None:  # fmt: skip
    config = {"run": run.id, "encoder": dict(plan.plain["encoder"]), "max_length": plan.dataset.max_length}
    Datastore.create(run.path / DATASTORE, model_hash(run, plan), config, list(names), rows, labels, list(texts))


def _vote_metrics(vote: Vote, calibration: AnyCalibration) -> dict[str, Any]:
    metrics = {f"retrieval/{name}": value for name, value in vars(vote).items()}
    return metrics | _thresholds(calibration, "retrieval/threshold") | _thresholds(calibration)


def _write(run: RunFolder, plan: Plan, module: ClassifierModule, names: Sequence[str], counts: np.ndarray,
           more: dict[str, Any]) -> None:  # fmt: skip
    _save(run, plan, module)
    _finish(run, plan, names, counts, more)


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
    run.write_json(ENVIRONMENT, {ENCODER_HASH: plan.encoder.weights_hash()})
    if (answer := RunFolder(run.path.parent)).has(DATA):  # a copy of this folder alone reads new files alike too
        run.write_json(DATA, answer.read_json(DATA))
    if isinstance(plan.encoder, WordEncoder):
        plan.encoder.save(run.path / WORDS)
    AtomicCheckpointIO().save_checkpoint(checkpoint, run.path / BEST)


def _finish(run: RunFolder, plan: Plan, names: Sequence[str], counts: np.ndarray, more: dict[str, Any]) -> None:
    if plan.dataset.class_descriptions is not None:  # whose file is not there when the folder has moved
        more = more | {DESCRIPTIONS: plan.dataset.describe_classes(names)}
    run.finish({"label_names": list(names), "class_counts": counts.tolist(), **more})
