"""The processes of the service: one speaks HTTP, and the others, of one thread each, are the model."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess, SpawnProcess
from typing import Any

import uvicorn
from fastapi import FastAPI

from tasks.service.app import application
from tasks.service.batching import Batcher, Row, answer_batches

KEEP_SECONDS = 75  # a connection on which nothing is asked; proxies mostly end theirs after 60


def start_http(
    run: str,
    label_names: tuple[str, ...],
    explains: bool,
    strips_markup: bool,
    missing: tuple[str, ...],
    listener: socket.socket,
    workers: int,
) -> tuple[SpawnProcess, list[Connection]]:
    """Start the process, and give it the listener. Returns it, and where the batches of each worker come from."""
    context = multiprocessing.get_context("spawn")
    batches, ends = zip(*(context.Pipe() for _ in range(workers)), strict=True)
    arguments = (run, label_names, explains, strips_markup, missing, listener, ends)
    process = context.Process(target=answer_requests, args=arguments, name="http", daemon=True)
    process.start()
    for end in ends:  # so that the end of either process is seen by the other
        end.close()
    listener.close()
    return process, list(batches)


def fork_workers(batches: list[Connection], predict: Callable[[list[Any]], list[Row]]) -> list[ForkProcess]:
    """A fork of this process for each connection but the first, which is left to this one.

    They share the model's memory, and so the CPU's cache: its threads would wait for the interpreter's lock.
    """
    context = multiprocessing.get_context("fork")
    workers: list[ForkProcess] = []
    while len(batches) > 1:
        worker = context.Process(target=_work, args=(batches, predict), name=f"worker {len(workers) + 1}", daemon=True)
        worker.start()
        batches.pop().close()
        workers.append(worker)
    return workers


def _work(batches: list[Connection], predict: Callable[[list[Any]], list[Row]]) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)  # it ends when the process that speaks HTTP has
    for other in batches[:-1]:
        other.close()
    answer_batches(batches[-1], predict)


def answer_requests(
    run: str,
    label_names: tuple[str, ...],
    explains: bool,
    strips_markup: bool,
    missing: tuple[str, ...],
    listener: socket.socket,
    workers: tuple[Connection, ...],
) -> None:
    """Serve until SIGTERM, and then what has been asked; also until a worker ends."""
    os.setsid()  # Ctrl-C is for the process of the model, which passes it on
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    batcher = Batcher(workers)

    @asynccontextmanager
    async def reading(_: FastAPI) -> AsyncIterator[None]:
        for worker in workers:
            asyncio.get_running_loop().add_reader(worker.fileno(), read, worker)
            os.set_blocking(worker.fileno(), True)  # uvloop's is not, and would read half an answer
        yield

    def read(worker: Connection) -> None:
        """Hand over what a worker has sent. Not in a thread: each answer would wake it, and it the loop."""
        try:
            answers = worker.recv()
        except (EOFError, OSError):
            asyncio.get_running_loop().remove_reader(worker.fileno())
            batcher.fail()
            server.should_exit = True
        else:
            batcher.receive(worker, answers)

    app = application(run, label_names, batcher, explains, strips_markup, missing, reading)
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, timeout_keep_alive=KEEP_SECONDS))
    server.run([listener])
