"""A finished run, opened again: its config, its module with the selected weights."""

from __future__ import annotations

from pathlib import Path

import torch
from omegaconf import DictConfig, OmegaConf, open_dict

from lightning_modules.base import ClassifierModule
from reporting.run_store import RunFolder, find_run
from tasks.build import Plan


def open_run(config: DictConfig) -> tuple[RunFolder, Plan]:
    """The run named by `config.run`, and the plan made from its own config with the paths of `config`.

    Raises:
        ValueError: no such run, or it is not finished.
    """
    run = find_run(config.paths.runs, config.run)
    if run.status != "finished":
        raise ValueError(f"run={run.id}: its status is {run.status}; needed: finished (type its command again)")
    own = OmegaConf.create(run.read_config())
    with open_dict(own):
        own.paths = config.paths
        own.trainer.num_threads = config.trainer.num_threads
        # one process serves, on the processor where the GPUs of training are not there
        alone = {"devices": 1, "num_nodes": 1, "strategy": "auto", "gradient_cache_chunk": None}
        own.trainer.update({key: value for key, value in alone.items() if key in own.trainer})
        if own.trainer.accelerator == "gpu":
            own.trainer.accelerator = "auto"
    return run, Plan.make(own)


def load_module(run: RunFolder, plan: Plan) -> tuple[ClassifierModule, tuple[str, ...]]:
    """The method with the weights of the selected epoch, in eval mode, and the label names by class index."""
    metrics = run.read_metrics()
    label_names = tuple(metrics["label_names"])
    module = plan.bare_module(torch.tensor(metrics["class_counts"]), label_names)
    load_weights(module, run.checkpoints / "best.ckpt", run.id)
    return module.eval(), label_names


def load_weights(module: ClassifierModule, file: Path, run_id: str) -> None:
    """Raises ValueError: no checkpoint, a damaged one, or one of another run."""
    module.run_id = run_id
    try:
        checkpoint = torch.load(file, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError) as error:
        raise ValueError(f"{file}: cannot be read as a checkpoint ({str(error).splitlines()[0]})") from error
    module.on_load_checkpoint(checkpoint)
    module.load_state_dict(checkpoint["state_dict"])
