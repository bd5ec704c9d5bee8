"""The Lightning trainer from a config: threads, precision and what is switched off on purpose."""

from __future__ import annotations

import ctypes
import logging
from pathlib import Path
from typing import Annotated, Any, Literal

import lightning.pytorch as pl
import torch

Precision = Literal["auto", "32", 32, "bf16", "bf16-mixed", "16-mixed"]


def build_trainer(
    run_folder: Path,
    callbacks: list[pl.Callback],
    logger: Any,
    plugins: list[Any],
    max_epochs: Annotated[int, ">= 1"] = 10,
    max_steps: Annotated[int, ">= -1"] = -1,
    precision: Precision = "auto",
    accelerator: Literal["auto", "cpu", "gpu"] = "cpu",
    devices: Annotated[int, ">= 1"] | Literal["auto"] = 1,
    num_nodes: Annotated[int, ">= 1"] = 1,
    strategy: str = "auto",
    num_threads: Annotated[int, ">= 1"] | None = None,
    gradient_clip_val: Annotated[float, "> 0"] | None = 1.0,
) -> pl.Trainer:
    """A trainer that samples nothing itself: batches and their order belong to the data module.

    `num_threads`: null takes what OMP_NUM_THREADS or the machine gives.
    """
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    keep_freed_memory()
    if num_threads is not None:
        torch.set_num_threads(num_threads)
    return pl.Trainer(
        default_root_dir=run_folder,
        callbacks=callbacks,
        logger=logger,
        plugins=plugins,
        max_epochs=max_epochs,
        max_steps=max_steps,
        precision=resolve_precision(precision, accelerator),
        accelerator=accelerator,
        devices=devices,
        num_nodes=num_nodes,
        strategy=strategy,
        gradient_clip_val=gradient_clip_val,
        num_sanity_val_steps=0,
        use_distributed_sampler=False,
        enable_model_summary=False,
        enable_progress_bar=any(isinstance(callback, pl.callbacks.ProgressBar) for callback in callbacks),
    )


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
    """`auto` is bf16-mixed where the processor multiplies bf16 natively, else 32-true."""
    if str(precision) == "auto":
        return "bf16-mixed" if multiplies_bf16(accelerator) else "32-true"
    return {"32": "32-true", "bf16": "bf16-mixed"}.get(str(precision), str(precision))


def multiplies_bf16(accelerator: str) -> bool:
    """Whether the device has bf16 matrix instructions (elsewhere bf16 is emulated and slower than float32)."""
    if accelerator != "cpu" and torch.cuda.is_available():
        return torch.cuda.get_device_capability()[0] >= 8
    try:
        flags = Path("/proc/cpuinfo").read_text()
    except OSError:
        return False
    return "avx512_bf16" in flags or "amx_bf16" in flags
