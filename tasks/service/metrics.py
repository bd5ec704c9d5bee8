"""What the HTTP service counts: answers, texts and seconds, as Prometheus reads them."""

from __future__ import annotations

import logging
import time
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Any

from fastapi.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tasks.service.batching import Batcher

BUCKETS = (0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)  # seconds
log = logging.getLogger(__name__)


class Durations:
    """How long requests took, by the status of their answer: a histogram as Prometheus takes it."""

    def __init__(self) -> None:
        self.numbers: dict[int, list[int]] = {}
        self.seconds: defaultdict[int, float] = defaultdict(float)

    def add(self, status: int, seconds: float) -> None:
        """Count a request."""
        numbers = self.numbers.setdefault(status, [0] * (len(BUCKETS) + 1))
        numbers[bisect_left(BUCKETS, seconds)] += 1
        self.seconds[status] += seconds

    def samples(self) -> Iterator[tuple[str, Any]]:
        """What follows the name of the metric, and the value: a bucket holds those of the smaller ones too."""
        for status, numbers in self.numbers.items():
            for bound, number in zip([*BUCKETS, "+Inf"], accumulate(numbers), strict=True):
                yield f'_bucket{{status="{status}",le="{bound}"}}', number
            yield f'_sum{{status="{status}"}}', f"{self.seconds[status]:.6f}"
            yield f'_count{{status="{status}"}}', sum(numbers)


class Counts:
    """What a service has answered since it started."""

    def __init__(self, batcher: Batcher) -> None:
        self.batcher = batcher
        self.statuses: Counter[int] = Counter()
        self.seconds = 0.0
        self.predicting = Durations()

    def add(self, status: int, seconds: float, is_prediction: bool) -> None:
        """Count an answer."""
        self.statuses[status] += 1
        self.seconds += seconds
        if is_prediction:  # who asks for /metrics every few seconds would hide how long predictions take
            self.predicting.add(status, seconds)

    def text(self) -> str:
        """All metrics."""
        requests = [(f'{{status="{status}"}}', number) for status, number in self.statuses.items()]
        batcher = self.batcher
        lines = [
            *_metric("requests_total", "counter", "Requests answered, by status.", requests),
            *_metric("request_seconds_total", "counter", "Seconds that they took.", [("", f"{self.seconds:.6f}")]),
            *_metric("predict_seconds", "histogram", "Seconds that POST /predict took.", self.predicting.samples()),
            *_metric("texts_total", "counter", "Texts predicted.", [("", batcher.texts)]),
            *_metric("batches_total", "counter", "Batches that they were predicted in.", [("", batcher.batches)]),
            *_metric("texts_waiting", "gauge", "Texts that wait for their answer.", [("", batcher.waiting)]),
        ]
        return "\n".join(lines) + "\n"


def _metric(name: str, kind: str, meaning: str, samples: Iterable[tuple[str, Any]]) -> Iterator[str]:
    """Lines of a metric, as Prometheus reads them: what follows the name, and the value, of each sample."""
    yield f"# HELP kontrast_{name} {meaning}"
    yield f"# TYPE kontrast_{name} {kind}"
    for end, value in samples:
        yield f"kontrast_{name}{end} {value}"


class Counted:
    """Counts answers by status and the seconds they took; a fault is logged and answered in a line.

    As plain ASGI: Starlette's decorator for middleware starts a task for each request, which costs more than the rest.
    """

    def __init__(self, app: ASGIApp, counts: Counts) -> None:
        self.app, self.counts = app, counts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request of any kind."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, status = time.perf_counter(), 0

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, watched)
        except Exception:
            log.exception("a request failed")
            if not status:
                fault = JSONResponse({"error": "a fault of the service; its log says more"}, 500)
                await fault(scope, receive, watched)
        self.counts.add(status, time.perf_counter() - started, predicts(scope))


def predicts(scope: Scope) -> bool:
    """Whether a request asks for predictions."""
    return scope["type"] == "http" and (scope["method"], scope["path"]) == ("POST", "/predict")
