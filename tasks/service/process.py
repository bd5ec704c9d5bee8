"""The process that speaks HTTP."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess

import uvicorn
from fastapi import FastAPI

from tasks.service.app import application
from tasks.service.batching import Batcher


def start_http(
    run: str, label_names: tuple[str, ...], explains: bool, listener: socket.socket
) -> tuple[SpawnProcess, Connection]:
    """Start the process, and give it the listener. Returns it, and where its batches come from."""
    context = multiprocessing.get_context("spawn")
    batches, model = context.Pipe()
    process = context.Process(
        target=answer_requests, args=(run, label_names, explains, listener, model), name="http", daemon=True
    )
    process.start()
    model.close()  # so that the end of either process is seen by the other
    listener.close()
    return process, batches


def answer_requests(
    run: str, label_names: tuple[str, ...], explains: bool, listener: socket.socket, model: Connection
) -> None:
    """Serve until SIGTERM, and then what has been asked; also until the model ends."""
    os.setsid()  # Ctrl-C is for the process of the model, which passes it on
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    batcher = Batcher(model)

    @asynccontextmanager
    async def reading(_: FastAPI) -> AsyncIterator[None]:
        threading.Thread(target=read, args=[asyncio.get_running_loop()], name="answers", daemon=True).start()
        yield

    def read(loop: asyncio.AbstractEventLoop) -> None:
        """Hand over what the model sends. A thread: an event loop would make the connection one that never waits."""
        while True:
            try:
                answers = model.recv()
            except (EOFError, OSError):
                loop.call_soon_threadsafe(end)
                return
            loop.call_soon_threadsafe(batcher.receive, answers)

    def end() -> None:
        batcher.fail()
        server.should_exit = True

    app = application(run, label_names, batcher, explains, reading)
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False))
    server.run([listener])
