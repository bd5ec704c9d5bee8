"""Texts of several requests, predicted together by other processes."""

from __future__ import annotations

import asyncio
import itertools
import pickle
from collections import deque
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

Row = dict[str, Any]
MIN_BATCH = 4  # texts from which on a batch is seldom worth waiting for
MAX_BATCH = 32  # texts from which on a larger batch takes no less time a text
MAX_WAITING = 16_384  # texts that may wait
ENDED = "the model has ended"


class Full(Exception):
    """So many texts wait that another request would wait too long."""


class Waiting(NamedTuple):
    """A request, or a piece of one: its texts, with what is asked of each, and where its answers are awaited."""

    texts: list[Any]
    answers: asyncio.Future[list[Row]]


class Batcher:
    """What comes in while all workers are at work is for the next batches: nothing waits for company.

    A batch takes a worker's share of what waits, for a large one takes less time a text, but not all that waits: its
    own texts would wait for all of it, and so would those that come after.

    Args:
        workers: where `answer_batches` works. Each gets its next batch when it has answered its last.
    """

    def __init__(self, workers: Sequence[Connection]) -> None:
        self.number, self.free = len(workers), list(workers)
        self.queue: deque[Waiting] = deque()
        self.at_work: dict[Connection, list[Waiting]] = {}
        self.texts = self.batches = self.waiting = self.queued = 0
        self.has_ended = False

    async def answers(self, texts: list[Any]) -> list[Row]:
        """The answers in the order of the texts, which are as `predict` takes them. Raises Full, and RuntimeError where
        the model could not."""
        if self.has_ended:
            raise RuntimeError(ENDED)
        if self.waiting + len(texts) > MAX_WAITING:
            raise Full
        self.waiting += len(texts)
        loop = asyncio.get_running_loop()
        starts = range(0, len(texts), MAX_BATCH)
        pieces = [Waiting(texts[start : start + MAX_BATCH], loop.create_future()) for start in starts]
        self.queue.extend(pieces)
        self.queued += len(texts)
        self._send()
        if len(pieces) == 1:  # without the tasks that would wait for several
            return await pieces[0].answers
        answers = await asyncio.gather(*(piece.answers for piece in pieces))
        return [row for piece in answers for row in piece]

    def receive(self, worker: Connection, answers: list[Row] | Exception) -> None:
        """Take what a worker sent for its batch, and give it the next one."""
        batch = self.at_work.pop(worker, [])  # nobody waits for it any more where another worker has ended
        self.free.append(worker)
        self._send()  # first: the worker waits
        self._settle(batch, answers)

    def fail(self) -> None:
        """Let nobody wait: a worker has ended."""
        waiting = [*itertools.chain(*self.at_work.values()), *self.queue]
        self.queue, self.at_work, self.has_ended = deque(), {}, True
        self._settle(waiting, RuntimeError(ENDED))

    def _send(self) -> None:
        while self.free and self.queue:
            size = min(max(self.queued // self.number, MIN_BATCH), MAX_BATCH)
            worker, batch, number = self.free.pop(), [], 0
            while self.queue and number < size:
                batch.append(self.queue.popleft())
                number += len(batch[-1].texts)
            self.queued -= number
            self.at_work[worker] = batch
            worker.send_bytes(pickle.dumps([text for piece in batch for text in piece.texts]))

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


def answer_batches(requests: Connection, predict: Callable[[list[Any]], list[Row]]) -> None:
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
            requests.send_bytes(pickle.dumps(answers))
        except (BrokenPipeError, ConnectionResetError):  # ended by force: nobody waits any more
            return
