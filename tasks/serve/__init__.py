"""Answer over HTTP with a finished run."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from omegaconf import DictConfig

from engine.finished import open_run
from tasks.predict import Predictor, classifier_predictor
from tasks.serve.batching import Batcher

if TYPE_CHECKING:
    import uvicorn

WARM_UP = *range(1, 9), 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64  # texts; of some 16 tokens each
WARM_UP_TEXT = "a " * 14
WARM_UP_SECONDS = 3.0


def serve(config: DictConfig, overrides: list[str]) -> Path:
    """Listen on `host`:`port` until SIGTERM or Ctrl-C, and then finish what has been asked.

    The answers are those of `task=predict`: where rows of several requests are predicted together, each has the bits
    that it has alone.

    Raises:
        ValueError: the run is not there, not finished or a clustering; the port is taken; the extra is not installed.
    """
    try:
        import uvicorn

        from tasks.requests import address_of, listen
        from tasks.serve.app import application
    except ImportError as error:
        raise ValueError("task=serve: needs fastapi and uvicorn; pip install kontrast[serve]") from error
    run, plan = open_run(config)
    explains = bool(plan.config.get("retrieval"))
    predictor = classifier_predictor(run, plan, explains)
    if plan.config.trainer.num_threads:
        torch.set_num_threads(plan.config.trainer.num_threads)
    _warm_up(predictor)
    batcher = Batcher(predictor.answers)
    app = application(run.id, predictor.label_names, batcher, explains)
    settings = uvicorn.Config(app, config.host, config.port, log_config=None, access_log=False)
    try:
        listener = settings.bind_socket()
    except SystemExit as error:
        raise ValueError(f"port: {config.host}:{config.port} cannot be listened on; allowed: another port") from error
    listen(listener)
    address = f"http://{address_of(*listener.getsockname()[:2])}"
    print(f"{run.id} answers on {address}; Ctrl-C ends it", file=sys.stderr, flush=True)
    server = uvicorn.Server(settings)

    def answer_requests() -> None:
        try:
            server.run([listener])
        finally:
            batcher.close()

    with _signals_end(server):
        http = threading.Thread(target=answer_requests, name="http")
        http.start()
        batcher.work()
        http.join()
    return run.path


def _warm_up(predictor: Predictor) -> None:
    """Predict batches of many sizes once, for three seconds at most: a product of matrices of a size that has not been
    there yet is prepared for milliseconds, while somebody would wait."""
    start = time.perf_counter()
    for number in WARM_UP:
        if time.perf_counter() - start > WARM_UP_SECONDS:
            break
        predictor.answers([WARM_UP_TEXT] * number)


@contextmanager
def _signals_end(server: uvicorn.Server) -> Iterator[None]:
    """While the block runs, SIGTERM and Ctrl-C let the server finish what it has begun; a second Ctrl-C does not."""
    before = {number: signal.signal(number, server.handle_exit) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
