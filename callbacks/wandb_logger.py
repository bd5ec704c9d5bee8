"""Weights & Biases: one of its runs per run id, online where logged in, offline otherwise, never a question."""

from __future__ import annotations

import netrc
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, cast
from urllib.parse import urlparse

from lightning.pytorch.loggers import WandbLogger
from lightning.pytorch.utilities import rank_zero_only

from storage.run_store import RunFolder, first_line

DEFAULT_SERVER = "https://api.wandb.ai"
INIT_TIMEOUT_SECONDS = 20
FINISH_TIMEOUT_SECONDS = 60
PER_CLASS = ("class", "train rows", "rows", "precision", "recall", "f1")


class SteadyWandbLogger(WandbLogger):
    """Lightning's logger, but a failure of W&B's own is said once and never ends the run."""

    failed = False

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        try:
            super().log_metrics(metrics, step)
        except Exception as error:
            if not self.failed:
                print(f"W&B takes no more figures ({first_line(error)}); the run goes on", file=sys.stderr)
            self.failed = True


def wandb_logger(
    run: RunFolder,
    config: Mapping[str, Any],
    project: str = "kontrast",
    group: str | None = None,
    mode: Literal["auto", "online", "offline"] = "auto",
    embedding_picture: bool = True,
) -> WandbLogger:
    """Logger of a run. A resumed run goes on in the same W&B run; offline files lie in the run's folder.

    Args:
        run: its id names the W&B run.
        config: resolved config, shown beside the curves.
        project: W&B project.
        group: W&B group; null takes the sweep's name where the run is a job of one.
        embedding_picture: whether the run draws its test embeddings for W&B; read by `tasks.fit`.
        mode: ``auto`` is what WANDB_MODE says where it is set, else online where an account is logged in, else offline.

    Raises:
        ValueError: W&B itself does not start. A server that does not answer is said, and the run logs offline.
    """
    if getattr(rank_zero_only, "rank", 0):
        return WandbLogger(offline=True, save_dir=run.path)
    import wandb

    os.environ.setdefault("WANDB_SILENT", "true")
    resolved_mode = cast(Literal["online", "offline"], _mode() if mode == "auto" else mode)
    settings = wandb.Settings(
        silent=True,
        console="off",
        init_timeout=INIT_TIMEOUT_SECONDS,
        finish_timeout=FINISH_TIMEOUT_SECONDS,
        finish_timeout_raises=True,
        # versions and commit stand in the run's environment.json; collecting them again costs start-up time
        disable_git=True,
        disable_code=True,
        x_disable_meta=True,
        x_save_requirements=False,
    )
    options: dict[str, Any] = {
        "project": project,
        "group": group,
        "id": run.id,
        "name": run.id,
        "dir": str(run.path.absolute()),  # W&B's own process keeps the working directory that it was started in
        "config": dict(config),
        "resume": "allow",
        "settings": settings,
    }
    run.path.mkdir(parents=True, exist_ok=True)
    try:
        experiment = wandb.init(mode=resolved_mode, **options)
    except wandb.Error as error:
        if resolved_mode != "online":
            raise ValueError(f"logger: W&B does not start ({first_line(error)}); logger=csv goes without") from error
        print(f"W&B cannot be reached, logging offline ({first_line(error)})", file=sys.stderr)
        wandb.teardown()
        experiment = wandb.init(mode="offline", **options)
    return SteadyWandbLogger(experiment=experiment, save_dir=run.path)


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


def log_wandb_outcome(run: RunFolder, figures: Mapping[str, Any]) -> None:
    """Give the W&B run of this process, if there is one, the outcome: figures, confusion, per-class F1, embeddings.

    Reads ``confusion.csv``, or ``labels.csv`` where texts have several, and ``embeddings.png`` of the run folder.

    Args:
        figures: for the summary, beside them ``class_counts`` and ``label_names``; other lists are left out.
    """
    wandb = sys.modules.get("wandb")
    if wandb is None or wandb.run is None:
        return
    try:
        wandb.run.summary.update({k: value for k, value in figures.items() if isinstance(value, (int, float, str))})
        if media := _media(run, figures):
            wandb.run.log(media)
    except Exception as error:  # W&B's own process may be gone; the run is finished all the same
        print(f"W&B takes no more figures ({first_line(error)})", file=sys.stderr)


def _media(run: RunFolder, figures: Mapping[str, Any]) -> dict[str, Any]:
    import wandb

    media: dict[str, Any] = {}
    if (run.path / "confusion.csv").exists():
        names, counts = _confusion(run)
        media["confusion"] = wandb.Table(
            columns=["reference", *names],
            data=[cast(Iterable[Any], [name, *row]) for name, row in zip(names, counts, strict=True)],
        )
        per_class = wandb.Table(columns=list(PER_CLASS), data=_per_class(names, counts, figures.get("class_counts")))
        media["per_class"] = per_class
        media["per_class_f1"] = wandb.plot.bar(per_class, "class", "f1", title="F1 by class, test")
    if (run.path / "labels.csv").exists():
        rows = run.read_csv("labels.csv")
        lines: list[Iterable[Any]] = [
            [row["label"], *(float(value) for key, value in row.items() if key != "label")] for row in rows
        ]
        per_label = wandb.Table(columns=list(rows[0]), data=lines)
        media["per_label"] = per_label
        media["per_label_f1"] = wandb.plot.bar(per_label, "label", "f1", title="F1 by label, test")
    if (run.path / "embeddings.png").exists():
        media["embeddings"] = wandb.Image(str(run.path / "embeddings.png"))
    return media


def _confusion(run: RunFolder) -> tuple[list[str], list[list[int]]]:
    rows = run.read_csv("confusion.csv")
    names = [row["label"] for row in rows]
    return names, [[int(row[name]) for name in names] for row in rows]


def _per_class(
    names: Sequence[str], counts: Sequence[Sequence[int]], train_rows: Sequence[int] | None
) -> list[Iterable[Any]]:
    rows: list[Iterable[Any]] = []
    for place, name in enumerate(names):
        hits, references, predicted = counts[place][place], sum(counts[place]), sum(row[place] for row in counts)
        precision, recall = (hits / total if total else 0.0 for total in (predicted, references))
        f1 = 2 * hits / (references + predicted) if references + predicted else 0.0
        rows.append([name, train_rows[place] if train_rows else None, references, precision, recall, f1])
    return rows


def finish_wandb() -> None:
    """Close the W&B run of this process if there is one, or the next run would log into it.

    Where the server is gone the files of the run stay whole, and what to type is said; nothing is raised.
    """
    wandb = sys.modules.get("wandb")
    if wandb is None or wandb.run is None:
        return
    folder = Path(wandb.run.dir).parent
    try:
        wandb.finish()
    except Exception as error:
        later = f"later: wandb sync --include-online {folder}"
        print(f"W&B cannot be reached ({first_line(error)}); {later}", file=sys.stderr)
        wandb.teardown()
