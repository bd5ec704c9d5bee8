"""A finished run, opened again: its config, its module with the selected weights."""

from __future__ import annotations

import json
import pickle
from collections.abc import Collection
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf, open_dict

from engine.environment import ENCODER_HASH, ENVIRONMENT
from engine.identity import completed, formerly, relocated
from engine.plan import Plan
from engine.trainer import on_processor
from engine.validation import check_targets
from lightning_modules.base import ClassifierModule, EncoderModule
from lightning_modules.encoders.words import WordEncoder
from storage.run_store import CHECKSUMS, DATA, QUESTION, REPEAT, RunFolder, damage_named, find_run, first_line
from storage.tables import checked_delimiter

BEST = "checkpoints/best.ckpt"  # weights of the selected epoch
DESCRIPTIONS = "class_descriptions"  # in metrics.json, where a file of the user's gave them
SOLVED = "solved"  # in a checkpoint: the figures of a solution, JSON
MODEL = "model"  # the folder in one of `task=auto` that is a run
WORDS = "words"  # the folder of a run with the vocabulary of an encoder that learned one


def open_run(config: DictConfig, clusters_too: bool = False) -> tuple[RunFolder, Plan]:
    """The run named by `config.run`, and the plan made from its own config with the paths of `config`.

    A curve of active learning stands for its last round.

    Raises:
        ValueError: no such run, it is not finished, or it is a clustering and those are not allowed.
    """
    run = _finished_run(config)
    plan = Plan.make(_own_config(run, config))
    # an earlier version left no copy in the model's own folder
    folders = [run, RunFolder(run.path.parent)] if run.path.name == MODEL else [run]
    if (source := next((folder for folder in folders if folder.has(DATA)), None)) is not None:
        with damage_named(source):
            _read_alike(plan.dataset, source.read_json(DATA)["files"][0])
    if (tasks := plan.dataset.tasks) is not None and config.task not in tasks:
        held = f"dataset={plan.dataset.name}, which holds {plan.dataset.kind}s"
        raise ValueError(f"run={run.id}: found {held}; task={config.task} takes others; allowed: {', '.join(tasks)}")
    if plan.serves == "clustering" and not clusters_too:
        raise ValueError(f"run={run.id}: a clustering; allowed with task={config.task}: a run of a classifier")
    if isinstance(plan.encoder, WordEncoder):
        plan.encoder.restore(run.path / WORDS)
    return run, plan


def _finished_run(config: DictConfig) -> RunFolder:
    """The run named by `config.run`, or what it stands for. Raises as `open_run`."""
    run = find_run(config.paths.runs, config.run)
    if (run.path / MODEL / "metrics.json").is_file():  # what `task=auto` recommends
        run = RunFolder(run.path / MODEL)
    if run.read_metrics().get("last_run") is not None:  # a curve of active learning: its last round holds the weights
        run = find_run(run.path.parent, run.metric("last_run", str))
    if run.has(QUESTION) and run.status == "finished":
        raise ValueError(f"run={run.id}: {run.metric('sentence', str)}")
    if run.status != "finished":
        raise ValueError(f"run={run.id}: its status is {run.status}; needed: finished (type its command again)")
    return run


def _own_config(run: RunFolder, config: DictConfig) -> DictConfig:
    """The config of a run, with the paths and threads of `config`, for one process on what is there."""
    kept = relocated(run.read_config())
    if not isinstance(kept.get("trainer"), dict):
        raise ValueError(f"run={run.id}: config.yaml: no group trainer; the file is damaged")
    check_targets(kept)  # before anything that it names is imported
    own = OmegaConf.create(completed(formerly(kept)))
    with open_dict(own):
        own.trainer.pop("strategy", None)  # an option of earlier runs
        own.paths, own.start_from = config.paths, None  # its weights are its own
        own.trainer.num_threads = config.trainer.get("num_threads")
        # one process serves, on the CPU where the GPUs of training are not there
        alone = {"devices": 1, "num_nodes": 1, "gradient_cache_chunk": None}
        own.trainer.update({key: value for key, value in alone.items() if key in own.trainer})
        if own.trainer.accelerator == "gpu":
            own.trainer.accelerator = "auto"
        if own.trainer.precision == "16-mixed" and on_processor(own.trainer.accelerator):
            own.trainer.precision = "32"
    return own


def _read_alike(dataset: Any, about: dict[str, Any]) -> None:
    """New files of the data set are read as the one of which `data.json` tells this; what nobody typed is guessed."""
    columns = {"text": about["text_columns"][0], "label": about.get("label_column")}
    dataset.learned_columns = {key: name for key, name in columns.items() if name is not None}
    dataset.learned_separator, dataset.learned_missing = about.get("label_separator"), about.get("missing") or ()
    typed = about.get("typed", {})
    dataset.encoding, dataset.delimiter = typed.get("encoding"), checked_delimiter(typed.get("delimiter"), "delimiter")
    dataset.learned_header, dataset.learned_sheet = typed.get("header", True), typed.get("sheet")


def is_of_auto(run: RunFolder) -> bool:
    """Whether a run is the model that `task=auto` left beside its answer."""
    return run.path.name == MODEL and RunFolder(run.path.parent).has(QUESTION)


def shown_id(run: RunFolder) -> str:
    """What people call a run: the model of `task=auto` by the folder of its answer, for every one of them lies in
    `model`. Weights are held against `run.id` all the same."""
    return run.path.absolute().parent.name if is_of_auto(run) else run.id


def load_module(run: RunFolder, plan: Plan) -> tuple[ClassifierModule, tuple[str, ...]]:
    """The method with the weights of the selected epoch, in eval mode, and the label names by class index."""
    label_names = tuple(run.metric("label_names", list, str))
    class_counts = run.metric("class_counts", list, int)
    if len(class_counts) != len(label_names):
        problem = f"{len(class_counts)} class_counts for {len(label_names)} label_names"
        raise ValueError(f"run {run.id}: metrics.json: {problem}; the file is damaged")
    if DESCRIPTIONS in run.read_metrics():
        plan.dataset.learned_descriptions = tuple(run.metric(DESCRIPTIONS, list, str))
    module = plan.bare_module(torch.tensor(class_counts), label_names)
    load_weights(module, run, plan)
    return module.eval(), label_names


def load_weights(
    module: EncoderModule,
    run: RunFolder,
    plan: Plan,
    name: str = BEST,
    more_allowed: bool = False,
    keep: Collection[str] = (),
) -> dict[str, Any] | None:
    """Weights of a run's checkpoint into the module of a plan; it may hold more than these only where that is allowed.

    Tensors named in `keep` stay as the module has them.

    Returns:
        The figures of the solution that these weights are; None where they are an epoch's.

    Raises:
        ValueError: no checkpoint, a damaged one, one of another run, tensors of other shapes or names, or an encoder
            that the checkpoint does not hold and that has changed.
    """
    module.run_id = run.id
    file = run.check_weights(name)
    try:
        checkpoint = torch.load(file, map_location="cpu", weights_only=True)
        checkpoint["state_dict"].items()
    except FileNotFoundError:
        raise ValueError(f"{file}: no such file; force=true repeats the run") from None
    except (OSError, RuntimeError, EOFError, LookupError, TypeError, ValueError, pickle.UnpicklingError) as error:
        raise ValueError(f"{file}: cannot be read as a checkpoint ({first_line(error)}); {REPEAT}") from error
    if run.has(CHECKSUMS):  # which prove that they are the run's, whatever its folder is called now
        module.run_id = checkpoint.get("run_id")
    if any(f"encoder.{key}" not in checkpoint["state_dict"] for key, _ in module.encoder.named_parameters()):
        check_encoder(run, plan)
    module.on_load_checkpoint(checkpoint)
    own = module.state_dict()
    checkpoint["state_dict"] |= {key: own[key] for key in keep}
    try:
        missing, _ = module.load_state_dict(checkpoint["state_dict"], strict=not more_allowed)
    except (RuntimeError, AttributeError, TypeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ValueError(f"{file}: its tensors are not those of method={module.name} ({reason}); {REPEAT}") from error
    if missing:
        raise ValueError(f"{file}: {', '.join(missing)} missing; {REPEAT}")
    return json.loads(checkpoint[SOLVED]) if SOLVED in checkpoint else None


def check_encoder(run: RunFolder, plan: Plan) -> None:
    """Hold an encoder that a run reads from its own files against that which it learned with, as far as it kept which
    one that was. Raises ValueError: it has other weights."""
    with damage_named(run):
        learned = run.read_json(ENVIRONMENT).get(ENCODER_HASH) if run.has(ENVIRONMENT) else None
    if learned is not None and (now := plan.encoder.weights_hash()) != learned:
        problem = f"found other weights than the run learned with ({now[:16]}…), allowed: {learned[:16]}…"
        raise ValueError(f"run={shown_id(run)}: encoder={plan.encoder.name}: {problem}")
