"""Rows of several requests, predicted together by one thread."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import torch

Row = dict[str, Any]
MAX_BATCH = 128  # rows that are predicted at once
MAX_WAITING = 16_384  # rows that may wait


class Full(Exception):
    """So many rows wait that another request would wait too long."""


class Batcher:
    """What comes in while a batch is predicted is the next batch: nothing waits for company.

    Args:
        predict: texts to answers, in the same order.
        num_threads: of torch; None for what it takes by itself.
    """

    def __init__(self, predict: Callable[[list[str]], list[Row]], num_threads: int | None = None) -> None:
        self.predict, self.num_threads = predict, num_threads
        self.queue: queue.SimpleQueue[tuple[str, Future] | None] = queue.SimpleQueue()
        self.rows = self.batches = 0
        self.thread = threading.Thread(target=self._work, name="predict", daemon=True)
        self.thread.start()

    def submit(self, texts: list[str]) -> list[Future]:
        """An answer to come for each text. Raises Full."""
        if self.queue.qsize() + len(texts) > MAX_WAITING:
            raise Full
        futures: list[Future] = [Future() for _ in texts]
        for text, future in zip(texts, futures, strict=True):
            self.queue.put((text, future))
        return futures

    def close(self) -> None:
        """Answer what waits, and end."""
        self.queue.put(None)
        self.thread.join()

    def _work(self) -> None:
        if self.num_threads:
            torch.set_num_threads(self.num_threads)  # counts for the thread that calls it
        is_open = True
        while is_open:
            first = self.queue.get()
            batch: list[tuple[str, Future]] = []
            while first is not None:
                batch.append(first)
                if len(batch) == MAX_BATCH or self.queue.empty():
                    break
                first = self.queue.get()
            is_open = first is not None
            if batch:
                self._answer(batch)

    def _answer(self, batch: list[tuple[str, Future]]) -> None:
        try:
            answers = self.predict([text for text, _ in batch])
        except Exception as error:
            for _, future in batch:
                future.set_exception(error)
            return
        self.rows, self.batches = self.rows + len(batch), self.batches + 1
        for (_, future), answer in zip(batch, answers, strict=True):
            future.set_result(answer)
