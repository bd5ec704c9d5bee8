"""Weights & Biases: one of its runs per run id, online where logged in, offline otherwise, never a question."""

from __future__ import annotations

import netrc
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlparse

from lightning.pytorch.loggers import WandbLogger
from lightning.pytorch.utilities import rank_zero_only

from reporting.run_store import RunFolder

DEFAULT_SERVER = "https://api.wandb.ai"
INIT_TIMEOUT_SECONDS = 20


def wandb_logger(
    run: RunFolder,
    config: Mapping[str, Any],
    project: str = "kontrast",
    group: str | None = None,
    mode: Literal["auto", "online", "offline"] = "auto",
) -> WandbLogger:
    """Logger of a run. A resumed run goes on in the same W&B run; offline files lie in the run's folder.

    Args:
        run: its id names the W&B run.
        config: resolved config, shown beside the curves.
        project: W&B project.
        group: W&B group; null takes the sweep's name where the run is a job of one.
        mode: ``auto`` is what WANDB_MODE says where it is set, else online where an account is logged in, else offline.

    Raises:
        ValueError: W&B itself does not start. A server that does not answer is said, and the run logs offline.
    """
    if rank_zero_only.rank:
        return WandbLogger(offline=True, save_dir=run.path)
    import wandb

    os.environ.setdefault("WANDB_SILENT", "true")
    chosen = _mode() if mode == "auto" else mode
    settings = wandb.Settings(
        silent=True,
        console="off",
        init_timeout=INIT_TIMEOUT_SECONDS,
        # versions and commit stand in the run's environment.json; collecting them again costs start-up time
        disable_git=True,
        disable_code=True,
        x_disable_meta=True,
        x_save_requirements=False,
    )
    options = {
        "project": project,
        "group": group,
        "id": run.id,
        "name": run.id,
        "dir": str(run.path),
        "config": dict(config),
        "resume": "allow",
        "settings": settings,
    }
    run.path.mkdir(parents=True, exist_ok=True)
    try:
        experiment = wandb.init(mode=chosen, **options)
    except wandb.Error as error:
        if chosen != "online":
            raise ValueError(f"logger: W&B does not start ({_first_line(error)}); logger=csv goes without") from error
        print(f"W&B cannot be reached, logging offline ({_first_line(error)})", file=sys.stderr)
        wandb.teardown()
        experiment = wandb.init(mode="offline", **options)
    return WandbLogger(experiment=experiment, save_dir=run.path)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _mode() -> str:
    return os.environ.get("WANDB_MODE") or ("online" if is_logged_in() else "offline")


def is_logged_in() -> bool:
    """Whether a key is at hand, in WANDB_API_KEY or in the netrc file; the network is not asked."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    host = urlparse(os.environ.get("WANDB_BASE_URL", DEFAULT_SERVER)).hostname or ""
    file = Path(os.environ.get("NETRC", Path.home() / ".netrc"))
    try:
        return host in netrc.netrc(file).hosts
    except (OSError, netrc.NetrcParseError):
        return False


def finish_wandb(metrics: Mapping[str, Any] | None = None) -> None:
    """Close the W&B run of this process if there is one, or the next run would log into it.

    Args:
        metrics: figures for its summary; what is no number or text is left out.
    """
    wandb = sys.modules.get("wandb")
    if wandb is None or wandb.run is None:
        return
    if metrics:
        wandb.run.summary.update({key: value for key, value in metrics.items() if isinstance(value, (int, float, str))})
    wandb.finish()
