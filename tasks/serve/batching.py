"""Texts of several requests, predicted together."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

Row = dict[str, Any]
MAX_BATCH = 128  # texts from which on a batch takes no further request
MAX_WAITING = 16_384  # texts that may wait


class Full(Exception):
    """So many texts wait that another request would wait too long."""


class Waiting(NamedTuple):
    """A request: its texts, and where its answers are awaited."""

    texts: list[str]
    answers: asyncio.Future[list[Row]]


class Batcher:
    """What comes in while a batch is predicted is the next batch: nothing waits for company.

    An event loop submits, another thread works. That one should be the main thread: the threads by which torch
    multiplies wait for work awake as long as they belong to one thread, and asleep, which costs a single text twice its
    time, where a second thread has some of its own.

    Args:
        predict: texts to answers, in the same order.
    """

    def __init__(self, predict: Callable[[list[str]], list[Row]]) -> None:
        self.predict = predict
        self.queue: queue.SimpleQueue[Waiting | None] = queue.SimpleQueue()
        self.texts = self.batches = self.waiting = 0  # changed by the event loop alone

    def submit(self, texts: list[str]) -> asyncio.Future[list[Row]]:
        """The answers to come, in the order of the texts; asked for in an event loop. Raises Full."""
        if self.waiting + len(texts) > MAX_WAITING:
            raise Full
        self.waiting += len(texts)
        request = Waiting(texts, asyncio.get_running_loop().create_future())
        self.queue.put(request)
        return request.answers

    def close(self) -> None:
        """Let `work` answer what waits, and end."""
        self.queue.put(None)

    def work(self) -> None:
        """Answer what is submitted until `close`."""
        is_open = True
        while is_open:
            batch, is_open = self._next_batch()
            if not batch:
                break
            try:
                answers: list[Row] | Exception = self.predict([text for request in batch for text in request.texts])
            except Exception as error:
                answers = error
            with suppress(RuntimeError):  # the loop was closed by force: nobody waits any more
                batch[0].answers.get_loop().call_soon_threadsafe(self._settle, batch, answers)

    def _next_batch(self) -> tuple[list[Waiting], bool]:
        """The requests that wait, as far as a batch takes them, and whether more may come."""
        batch: list[Waiting] = []
        while not batch or (sum(len(request.texts) for request in batch) < MAX_BATCH and not self.queue.empty()):
            request = self.queue.get()
            if request is None:
                return batch, False
            batch.append(request)
        return batch, True

    def _settle(self, batch: list[Waiting], answers: list[Row] | Exception) -> None:
        start, self.batches = 0, self.batches + 1
        for texts, future in batch:
            self.waiting -= len(texts)
            self.texts += len(texts)
            rows = slice(start, start := start + len(texts))
            if future.done():  # its client has gone
                continue
            if isinstance(answers, Exception):
                future.set_exception(answers)
            else:
                future.set_result(answers[rows])
