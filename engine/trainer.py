"""The Lightning trainer from a config: threads, precision and what is switched off on purpose."""

from __future__ import annotations

import ctypes
import logging
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import EarlyStopping
from lightning.pytorch.plugins.environments import TorchElasticEnvironment
from lightning.pytorch.strategies import DDPStrategy

from engine.world import World, is_one_of_several

Precision = Literal["auto", "32", 32, "bf16", "bf16-mixed", "16-mixed"]
EPOCHS, ENOUGH_STEPS = 6, 30
HEAD_EPOCHS, HEAD_STEPS = 30, 600  # of heads over a frozen encoder, after which their losses move little
LEAST_STEPS = {"enough": ENOUGH_STEPS, "converged": HEAD_STEPS}
# of AECL's stages. The steps of one top layer of MiniLM take two older cores some 14 minutes
SCHEDULE_EPOCHS, SCHEDULE_STEPS, LEAST_EPOCHS = 70, 800, 12
THREADS_A_PROCESSOR = 8  # more only wait for each other


def build_trainer(
    run_folder: Path,
    callbacks: list[pl.Callback],
    logger: Any,
    plugins: list[Any],
    max_epochs: Annotated[int, ">= 1"] | Literal["enough", "converged", "by_size"] = EPOCHS,
    max_steps: Annotated[int, ">= 1"] | Literal[-1] = -1,
    least_steps: Annotated[int, ">= 0"] = 0,
    precision: Precision = "auto",
    accelerator: Literal["auto", "cpu", "gpu"] = "cpu",
    devices: Annotated[int, ">= 1", "<= 1024"] | Literal["auto"] = 1,
    num_nodes: Annotated[int, ">= 1", "<= 1024"] = 1,
    num_threads: Annotated[int, ">= 1", "<= 1024"] | None = None,
    gradient_clip_val: Annotated[float, "> 0"] | None = 1.0,
    accumulate_grad_batches: Annotated[int, ">= 1"] = 1,
    gradient_cache_chunk: Annotated[int, ">= 1"] | None = None,
    batches: int = 0,
) -> pl.Trainer:
    """A trainer that samples nothing itself: batches and their order belong to the data module.

    With several devices or nodes it works in one of the processes that `engine.processes` starts or joins.

    Args:
        max_epochs: a number, or `enough`: 6, or where rows are few as many as 30 steps of the optimizer take; or
            `converged`, for heads over a frozen encoder: 30, or as many as 600 steps take, and no early stopping, which
            a few validation rows would cause by chance; or `by_size`, for clustering: 70, or where top layers train on
            the CPU as many as 800 steps take, 12 at least.
        max_steps: of the optimizer, -1 for any number; the part of an epoch that it may end in is validated too.
        least_steps: of the optimizer: where `max_epochs` have fewer, as many epochs as it takes.
        num_threads: of each process; null takes what OMP_NUM_THREADS or the machine gives.
        accumulate_grad_batches: batches of one optimizer step.
        gradient_cache_chunk: rows that the encoder sees at a time in training; the module reads it.
        batches: of an epoch, where the number of epochs follows from it.
    """
    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.WARNING)
    keep_freed_memory()
    if num_threads is not None:
        torch.set_num_threads(num_threads)
    if several := is_one_of_several():
        world = World.of({"devices": devices, "num_nodes": num_nodes, "accelerator": accelerator})
        devices, num_nodes, plugins = world.devices, world.nodes, [*plugins, TorchElasticEnvironment()]
    if max_epochs == "converged":
        callbacks = [callback for callback in callbacks if not isinstance(callback, EarlyStopping)]
    if max_steps > 0:
        callbacks = [*callbacks, _ValidateAfterLastStep()]
    return pl.Trainer(
        default_root_dir=run_folder,
        callbacks=callbacks,
        logger=logger,
        plugins=plugins,
        max_epochs=_epochs(max_epochs, math.ceil(batches / accumulate_grad_batches), least_steps),
        max_steps=max_steps,
        precision=cast(Any, resolve_precision(precision, accelerator)),
        accelerator=accelerator,
        devices=devices,
        num_nodes=num_nodes,
        # methods with stages leave parameters out of some steps
        strategy=DDPStrategy(find_unused_parameters=True) if several else "auto",
        sync_batchnorm=several and not on_processor(accelerator),  # it raises on the CPU
        gradient_clip_val=gradient_clip_val,
        accumulate_grad_batches=accumulate_grad_batches,
        num_sanity_val_steps=0,
        use_distributed_sampler=False,
        enable_model_summary=False,
        enable_progress_bar=any(isinstance(callback, pl.callbacks.ProgressBar) for callback in callbacks),
    )


class _ValidateAfterLastStep(pl.Callback):
    """Lightning ends a part of an epoch without validation, and it would be judged by the epoch before, or by none."""

    def on_train_batch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        if trainer.global_step >= trainer.max_steps:
            trainer.should_stop = True


def _epochs(max_epochs: int | str, steps_an_epoch: int, least_steps: int) -> int:
    """How many these words mean, and as many as the least steps take where it is known how many an epoch has."""
    if max_epochs == "by_size":
        epochs = min(SCHEDULE_EPOCHS, max(LEAST_EPOCHS, SCHEDULE_STEPS // max(steps_an_epoch, 1)))
    else:
        epochs = max_epochs if isinstance(max_epochs, int) else {"enough": EPOCHS, "converged": HEAD_EPOCHS}[max_epochs]
    least_steps = max(least_steps, LEAST_STEPS.get(str(max_epochs), 0))
    return max(epochs, math.ceil(least_steps / steps_an_epoch)) if steps_an_epoch else epochs


def trainer_findings(plain: Mapping[str, Any]) -> Iterator[str]:
    """What `trainer` asks for and cannot have: on this machine, with this task, sampler, encoder or method."""
    trainer = plain["trainer"]
    gpus = torch.cuda.device_count()
    if trainer["accelerator"] == "gpu" and not gpus:
        yield (
            "trainer.accelerator: found gpu, and torch sees no GPU here; allowed: cpu "
            "(trainer=cpu, or trainer=ddp_cpu for several processes)"
        )
    elif trainer["accelerator"] == "gpu" and trainer["devices"] != "auto" and trainer["devices"] > gpus:
        yield f"trainer.devices: found {trainer['devices']}, allowed: at most {gpus}, the GPUs that torch sees here"
    if trainer["max_epochs"] == "by_size" and plain["task"] != "cluster":
        yield "trainer.max_epochs: found by_size, allowed with task=cluster; here a number, enough or converged"
    threads, most = trainer.get("num_threads") or 1, THREADS_A_PROCESSOR * (os.cpu_count() or 1)
    if threads > most:
        here = f"{THREADS_A_PROCESSOR} for each processor here"
        yield f"trainer.num_threads: found {threads}, allowed: at most {most}, {here}; null takes what fits"
    if trainer["precision"] == "16-mixed" and not (gpus and trainer["accelerator"] != "cpu"):
        yield "trainer.precision: found 16-mixed, allowed on the CPU: auto, 32, bf16"
    world, sampler = World.of(trainer), plain.get("sampler")
    processes = world.size
    batch_size = sampler["batch_size"] if sampler else 0
    if processes > 1 and plain["task"] != "fit":
        yield f"trainer.devices: found {processes} processes in all, allowed with task={plain['task']}: 1"
    if world.process is not None and plain.get("active"):
        yield "active: its rounds start their own processes; allowed: null under torchrun, srun and Ray Train"
    if batch_size % processes:
        yield f"sampler.batch_size: found {batch_size}, allowed: a multiple of {processes}, the processes"
    if (chunk := trainer.get("gradient_cache_chunk")) is not None:
        rows = plain["method"]["num_views"] * batch_size // processes
        if plain["encoder"]["train"] == "frozen":
            yield "trainer.gradient_cache_chunk: has no effect with encoder.train=frozen; allowed: null"
        elif chunk >= rows:
            yield f"trainer.gradient_cache_chunk: found {chunk}, allowed: null, or below a batch's {rows} rows"


def keep_freed_memory() -> None:
    """Let glibc keep what a step frees; else it gives large blocks back and faults them in again at every step."""
    mmap_threshold, trim_threshold = -3, -1  # of malloc.h
    try:
        libc = ctypes.CDLL("libc.so.6")
    except OSError:  # another C library
        return
    libc.mallopt(mmap_threshold, 1 << 30)
    libc.mallopt(trim_threshold, (1 << 31) - 1)


def resolve_precision(precision: str | int, accelerator: str) -> str:
    """`auto` is bf16-mixed where the CPU multiplies bf16 natively, else 32-true."""
    if str(precision) == "auto":
        return "bf16-mixed" if multiplies_bf16(accelerator) else "32-true"
    return {"32": "32-true", "bf16": "bf16-mixed"}.get(str(precision), str(precision))


def on_processor(accelerator: str) -> bool:
    """Whether no GPU is used."""
    return accelerator == "cpu" or not torch.cuda.is_available()


def multiplies_bf16(accelerator: str) -> bool:
    """Whether the device has bf16 matrix instructions (elsewhere bf16 is emulated and slower than float32)."""
    if not on_processor(accelerator):
        return torch.cuda.get_device_capability()[0] >= 8
    try:
        flags = Path("/proc/cpuinfo").read_text()
    except OSError:
        return False
    return "avx512_bf16" in flags or "amx_bf16" in flags
