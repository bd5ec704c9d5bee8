"""The HTTP service: what may be asked, what is answered, what is refused."""

from __future__ import annotations

import logging
import time
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from starlette.types import ASGIApp, Lifespan, Message, Receive, Scope, Send

from datamodules.markup import without_markup
from storage.tables import is_visible
from tasks.service.batching import Batcher, Full
from tasks.service.requests import BODY_SECONDS, MAX_BODY, Refusal, body_of, parsed, refuse_in_one_line

MAX_ROWS = 1024
MAX_CHARACTERS = 100_000  # of a text
BUCKETS = (0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)  # seconds
PAGES = {"/": "page.html", "/docs": "docs.html"}
REFUSALS = {
    400: "what this run cannot answer, or half a body",
    408: f"a body that did not come within {BODY_SECONDS:.0f} seconds",
    413: f"a body longer than {MAX_BODY} bytes",
    422: "a malformed body",
    500: "a fault of the service; its log says more",
    503: "too many texts wait",
}
log = logging.getLogger(__name__)


def _visible(text: str) -> str:
    if not is_visible(text):
        raise ValueError("no text with a visible character")
    return text


class Question(BaseModel):
    """Texts to predict."""

    model_config = ConfigDict(extra="forbid", strict=True)
    texts: Annotated[
        list[Annotated[str, Field(max_length=MAX_CHARACTERS, pattern=r"\S"), AfterValidator(_visible)]],
        Field(min_length=1, max_length=MAX_ROWS),
    ]
    explain: Annotated[bool, Field(description="whether to answer who voted, by a run with neighbours")] = False
    probabilities: Annotated[bool, Field(description="whether to answer the probability of every label, `p_LABEL`")] = (
        False
    )


def _refuse_markup_alone(texts: Sequence[str]) -> None:
    """Raises Refusal where nothing is left of a text for a run that learned without markup."""
    for place, text in enumerate(texts):
        if not is_visible(without_markup(text)):
            raise Refusal(422, f"texts.{place}: no text with a visible character outside its markup")


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


class Counted:
    """Counts answers by status and the seconds they took; a fault is logged and answered in a line.

    As plain ASGI: Starlette's decorator for middleware starts a task for each request, which costs more than the rest.
    """

    def __init__(self, app: ASGIApp, statuses: Counter[int], seconds: list[float], predicting: Durations) -> None:
        self.app, self.statuses, self.seconds, self.predicting = app, statuses, seconds, predicting

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
        took = time.perf_counter() - started
        self.statuses[status] += 1
        self.seconds[0] += took
        if _predicts(scope):  # who asks for /metrics every few seconds would hide how long predictions take
            self.predicting.add(status, took)


class Direct:
    """Answers `POST /predict` itself: through the layers of FastAPI a request costs twice as much."""

    def __init__(self, app: ASGIApp, predict: Callable[[Request], Awaitable[JSONResponse]]) -> None:
        self.app, self.predict = app, predict

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request of any kind."""
        if not _predicts(scope):
            await self.app(scope, receive, send)
            return
        try:
            answer = await self.predict(Request(scope, receive))
        except Refusal as refusal:
            answer = refusal.answer()
        await answer(scope, receive, send)


def _predicts(scope: Scope) -> bool:
    return scope["type"] == "http" and (scope["method"], scope["path"]) == ("POST", "/predict")


def _metric(name: str, kind: str, meaning: str, samples: Iterable[tuple[str, Any]]) -> Iterator[str]:
    """Lines of a metric, as Prometheus reads them: what follows the name, and the value, of each sample."""
    yield f"# HELP kontrast_{name} {meaning}"
    yield f"# TYPE kontrast_{name} {kind}"
    for end, value in samples:
        yield f"kontrast_{name}{end} {value}"


def _response(when: str, example: Any, kind: str = "application/json") -> dict[str, Any]:
    return {"description": when, "content": {kind: {"example": example}}}


def application(
    run: str,
    label_names: Sequence[str],
    batcher: Batcher,
    explains: bool,
    strips_markup: bool,
    lifespan: Lifespan[FastAPI],
) -> ASGIApp:
    """The service of a run; `explains` says whether it has neighbours to show, `strips_markup` whether it reads texts
    without their markup."""
    title = f"Kontrast: {run}"
    app = FastAPI(title=title, docs_url=None, redoc_url=None, lifespan=lifespan)  # their pages fetch from elsewhere
    statuses: Counter[int] = Counter()
    seconds, predicting = [0.0], Durations()

    refuse_in_one_line(app)

    asked = {"schema": Question.model_json_schema(), "example": {"texts": ["a text"]}}
    body = {"content": {"application/json": asked}, "required": True}
    answer = {"run": run, "predictions": [{"prediction": label_names[0], "probability": 0.9}]}
    responses: dict[int | str, dict[str, Any]] = {
        200: _response("for each text, in order, the columns of task=predict", answer),
        **{status: _response(when, {"error": "one line"}) for status, when in REFUSALS.items()},
    }

    @app.post(
        "/predict",
        openapi_extra={"requestBody": body},
        responses=responses,
        summary="Predict texts, in their order",
    )
    async def predict(request: Request) -> JSONResponse:
        question = parsed(Question, await body_of(request.receive))
        if question.explain and not explains:
            raise Refusal(400, "explain: found true, allowed: false; this run has no neighbours")
        if strips_markup:
            _refuse_markup_alone(question.texts)
        try:
            answers = await batcher.answers([(text, question.probabilities) for text in question.texts])
        except Full:
            raise Refusal(503, "too many texts wait; ask again later") from None
        hidden = set() if question.explain else {"neighbours"}
        shown = [{key: value for key, value in answer.items() if key not in hidden} for answer in answers]
        return JSONResponse({"run": run, "predictions": shown})

    alive = {"status": "ok", "run": run, "labels": list(label_names)}

    @app.get("/health", responses={200: _response("it does", alive)}, summary="Whether the service answers")
    async def health() -> dict[str, Any]:
        return alive

    counters = _response("always", 'kontrast_requests_total{status="200"} 1', "text/plain")

    @app.get(
        "/metrics",
        response_class=PlainTextResponse,
        responses={200: counters},
        summary="Counters, as Prometheus reads them",
    )
    async def metrics() -> PlainTextResponse:
        requests = [(f'{{status="{status}"}}', number) for status, number in statuses.items()]
        lines = [
            *_metric("requests_total", "counter", "Requests answered, by status.", requests),
            *_metric("request_seconds_total", "counter", "Seconds that they took.", [("", f"{seconds[0]:.6f}")]),
            *_metric("predict_seconds", "histogram", "Seconds that POST /predict took.", predicting.samples()),
            *_metric("texts_total", "counter", "Texts predicted.", [("", batcher.texts)]),
            *_metric("batches_total", "counter", "Batches that they were predicted in.", [("", batcher.batches)]),
            *_metric("texts_waiting", "gauge", "Texts that wait for their answer.", [("", batcher.waiting)]),
        ]
        return PlainTextResponse("\n".join(lines) + "\n", media_type="text/plain; version=0.0.4")

    @app.get("/", include_in_schema=False)
    @app.get("/docs", include_in_schema=False)
    async def page(request: Request) -> HTMLResponse:
        policy = {"Content-Security-Policy": "default-src 'self' 'unsafe-inline'", "X-Frame-Options": "DENY"}
        file = Path(__file__).with_name(PAGES[request.scope["path"]])
        return HTMLResponse(file.read_text(encoding="utf-8"), headers=policy)

    return Counted(Direct(app, predict), statuses, seconds, predicting)
