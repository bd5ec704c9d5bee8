"""MLflow: one of its runs per run id, in a server or in a database beside the runs."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Mapping
from typing import Any

from filelock import FileLock
from lightning.pytorch.loggers import MLFlowLogger
from lightning.pytorch.loggers.logger import DummyLogger, Logger
from lightning.pytorch.utilities import rank_zero_only

from callbacks.open_logs import opened
from storage.run_store import RunFolder, first_line

DATABASE, ARTIFACTS = "mlflow.db", "mlflow"
NOT_IN_NAMES = re.compile(r"[^\w/. -]")  # of MLflow's metrics
PICTURES = ("embeddings.png", "confusion.csv", "labels.csv")


class RunMLFlowLogger(MLFlowLogger):
    """Lightning's logger, but a failure of MLflow's own is said once and never ends the run."""

    failed = False

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        try:
            super().log_metrics({NOT_IN_NAMES.sub("_", name): value for name, value in metrics.items()}, step)
        except Exception as error:
            if not self.failed:
                print(f"MLflow takes no more figures ({first_line(error)}); the run goes on", file=sys.stderr)
            self.failed = True

    def log_outcome(self, run: RunFolder, figures: Mapping[str, float]) -> None:
        """Figures of test, and what the run's folder shows of them; those of validation stand in the curves."""
        self.log_metrics({name: value for name, value in figures.items() if not name.startswith("val/")})
        for name in PICTURES:
            if (run.path / name).exists():
                self.experiment.log_artifact(self.run_id, str(run.path / name))

    def close(self) -> None:
        """Nothing is open."""


def mlflow_logger(
    run: RunFolder,
    config: Mapping[str, Any],
    experiment: str = "kontrast",
    tracking_uri: str | None = None,
    embedding_picture: bool = True,
) -> Logger:
    """Logger of a run. A resumed run goes on in the same run of MLflow.

    Args:
        run: its id names the run.
        config: resolved config, shown as parameters.
        experiment: MLflow's experiment.
        tracking_uri: of a server or a database; null takes MLFLOW_TRACKING_URI, else `mlflow.db` beside the runs.
        embedding_picture: whether the run draws its test embeddings; read by `tasks.fit`.

    Raises:
        ValueError: MLflow is not installed, or does not answer.
    """
    if getattr(rank_zero_only, "rank", 0):
        return DummyLogger()
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")  # else it tries for minutes
    try:
        from mlflow.tracking import MlflowClient
    except ImportError as error:
        raise ValueError("logger=mlflow: MLflow is not installed; pip install '.[mlflow]'") from error

    logging.getLogger("mlflow").setLevel(logging.WARNING)
    store = run.path.parent
    store.mkdir(parents=True, exist_ok=True)
    uri = tracking_uri or os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{store.resolve()}/{DATABASE}"
    with FileLock(store / f".{DATABASE}.lock"):  # jobs of a sweep would all make the database and the experiment
        try:
            client = MlflowClient(uri)
            entry = client.get_experiment_by_name(experiment)
            place = None if uri.startswith("http") else str(store.resolve() / ARTIFACTS)  # a server has its own
            number = entry.experiment_id if entry else client.create_experiment(experiment, artifact_location=place)
            earlier = client.search_runs([number], f"attributes.run_name = '{run.id}'", max_results=1)
            log = RunMLFlowLogger(experiment, run.id, uri, run_id=earlier[0].info.run_id if earlier else None)
            if not earlier:  # MLflow refuses to change them, and the same run may go on with other devices
                log.log_hyperparams(dict(config))
        except Exception as error:
            raise ValueError(f"logger.tracking_uri: {uri} ({first_line(error)}); logger=csv goes without") from error
    return opened(log)
