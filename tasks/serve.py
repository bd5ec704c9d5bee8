"""Answer over HTTP with a finished run."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.context import SpawnProcess
from pathlib import Path

import torch
from omegaconf import DictConfig
from threadpoolctl import threadpool_limits

from engine.finished import open_run, shown_id
from storage.errors import ReportError
from storage.tables import Row, no_values
from tasks.predict import Predictor, classifier_predictor

MOST_WORKERS = 8  # more than one process could hand on requests to
WARM_UP = *range(1, 9), *range(10, 17, 2), *range(20, 33, 4), *range(40, 65, 8)  # texts, of some 8 tokens each
WARM_UP_TEXT = "a " * 6
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

        from tasks.service.batching import answer_batches
        from tasks.service.process import fork_workers, start_http
        from tasks.service.requests import address_of, listen
    except ImportError as error:
        raise ValueError("task=serve: needs fastapi and uvicorn; pip install '.[serve]'") from error
    run, plan = open_run(config)
    explains = bool(plan.config.get("retrieval"))
    workers = min(plan.plain["trainer"]["num_threads"] or torch.get_num_threads(), MOST_WORKERS)
    predictor = classifier_predictor(run, plan, explains, sure=config.sure)
    try:
        listener = uvicorn.Config("", config.host, config.port, log_config=None).bind_socket()
    except SystemExit as error:
        raise ValueError(f"port: {config.host}:{config.port} cannot be listened on; allowed: another port") from error
    listen(listener)
    address = f"http://{address_of(*listener.getsockname()[:2])}"
    strips_markup = plan.plain["dataset"].get("markup") == "strip"
    missing = tuple(no_values(plan.dataset.learned_missing))
    http, batches = start_http(
        shown_id(run), predictor.label_names, explains, strips_markup, missing, listener, workers
    )
    _one_thread()
    _warm_up(predictor)

    def predict(asked: list[tuple[str, bool]]) -> list[Row]:
        return predictor.answers([text for text, _ in asked], [every_label for _, every_label in asked])

    processes = [*fork_workers(batches, predict), http]
    with _signals_end(http) as ended:
        print(f"{shown_id(run)} answers on {address}; Ctrl-C ends it", file=sys.stderr, flush=True)
        answer_batches(batches[0], predict)
        http.join()
        if not ended:
            first = next((process for process in processes if process.exitcode), http)
            raise ReportError(f"task=serve: the process {first.name} ended by itself, with status {first.exitcode}")
    return run.path


def _one_thread() -> None:
    """From now on, in this process and its forks: so many workers each have one, and wait for no other's."""
    torch.set_num_threads(1)
    threadpool_limits(1)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"


def _warm_up(predictor: Predictor) -> None:
    """Predict batches of many sizes once, for three seconds at most: a product of matrices of a size that has not been
    there yet is prepared for milliseconds, while somebody would wait."""
    start = time.perf_counter()
    for number in WARM_UP:
        if time.perf_counter() - start > WARM_UP_SECONDS:
            break
        predictor.answers([WARM_UP_TEXT] * number)


@contextmanager
def _signals_end(http: SpawnProcess) -> Iterator[list[int]]:
    """While the block runs, SIGTERM and Ctrl-C let the service finish what it has begun; a second Ctrl-C does not.

    Yields the signals that came.
    """
    came: list[int] = []

    def end(number: int, _: object) -> None:
        came.append(number)
        if number == signal.SIGINT and len(came) > 1:
            http.kill()
        else:
            http.terminate()

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
