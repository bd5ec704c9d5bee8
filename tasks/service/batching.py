"""Texts of several requests, predicted together by another process."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from multiprocessing.connection import Connection
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

    Args:
        model: where `answer_batches` works. It gets the next batch when it has answered the last.
    """

    def __init__(self, model: Connection) -> None:
        self.model = model
        self.queue: deque[Waiting] = deque()
        self.batch: list[Waiting] = []  # what the model works on
        self.texts = self.batches = self.waiting = 0

    def submit(self, texts: list[str]) -> asyncio.Future[list[Row]]:
        """The answers to come, in the order of the texts; asked for in an event loop. Raises Full."""
        if self.waiting + len(texts) > MAX_WAITING:
            raise Full
        self.waiting += len(texts)
        request = Waiting(texts, asyncio.get_running_loop().create_future())
        self.queue.append(request)
        if not self.batch:
            self._send_next()
        return request.answers

    def receive(self, answers: list[Row] | Exception) -> None:
        """Take what the model sent for its batch, and give it the next one."""
        batch, self.batch = self.batch, []
        self._send_next()  # first: the model waits
        self._settle(batch, answers)

    def fail(self) -> None:
        """Let nobody wait: the model has ended."""
        waiting, self.queue, self.batch = [*self.batch, *self.queue], deque(), []
        self._settle(waiting, RuntimeError("the model has ended"))

    def _send_next(self) -> None:
        number = 0
        while self.queue and number < MAX_BATCH:
            self.batch.append(self.queue.popleft())
            number += len(self.batch[-1].texts)
        if self.batch:
            self.model.send([text for request in self.batch for text in request.texts])

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


def answer_batches(requests: Connection, predict: Callable[[list[str]], list[Row]]) -> None:
    """Answer the batches that come from a `Batcher` until its process ends."""
    while True:
        try:
            texts = requests.recv()
        except (EOFError, ConnectionResetError):
            return
        try:
            answers: list[Row] | Exception = predict(texts)
        except Exception as error:
            answers = RuntimeError(f"{type(error).__name__}: {error}")  # the model's own may not pass a process
        try:
            requests.send(answers)
        except (BrokenPipeError, ConnectionResetError):  # ended by force: nobody waits any more
            return
