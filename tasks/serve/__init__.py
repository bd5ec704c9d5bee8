"""Answer over HTTP with a finished run."""

from __future__ import annotations

import sys
from pathlib import Path

from omegaconf import DictConfig

from engine.finished import open_run
from tasks.predict import classifier_predictor
from tasks.serve.batching import Batcher


def serve(config: DictConfig, overrides: list[str]) -> Path:
    """Listen on `host`:`port` until SIGTERM or Ctrl-C, and then finish what has been asked.

    The answers are those of `task=predict`: where rows of several requests are predicted together, each has the bits
    that it has alone.

    Raises:
        ValueError: the run is not there, not finished or a clustering; the port is taken; the extra is not installed.
    """
    try:
        import uvicorn

        from tasks.requests import listen
        from tasks.serve.app import application
    except ImportError as error:
        raise ValueError("task=serve: needs fastapi and uvicorn; pip install kontrast[serve]") from error
    run, plan = open_run(config)
    explains = bool(plan.config.get("retrieval"))
    predictor = classifier_predictor(run, plan, explains)
    batcher = Batcher(predictor.answers, plan.config.trainer.num_threads)
    app = application(run.id, predictor.label_names, batcher, explains)
    settings = uvicorn.Config(app, config.host, config.port, log_config=None, access_log=False)
    try:
        listener = settings.bind_socket()
    except SystemExit as error:
        raise ValueError(f"port: {config.host}:{config.port} cannot be listened on; allowed: another port") from error
    listen(listener)
    address = "http://{}:{}".format(*listener.getsockname()[:2])
    print(f"{run.id} answers on {address}; Ctrl-C ends it", file=sys.stderr, flush=True)
    try:
        uvicorn.Server(settings).run([listener])
    except KeyboardInterrupt:
        pass  # it has finished what it began, and sends the signal on
    finally:
        batcher.close()
    return run.path
