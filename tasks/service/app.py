"""The HTTP service: what may be asked, what is answered, what is refused."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.types import ASGIApp, Lifespan, Message, Receive, Scope, Send

from tasks.requests import Refusal, body_of, parsed, refuse_in_one_line
from tasks.service.batching import Batcher, Full

MAX_ROWS = 1024
MAX_CHARACTERS = 100_000  # of a text
PAGE = Path(__file__).with_name("page.html")
log = logging.getLogger(__name__)


class Question(BaseModel):
    """Texts to predict."""

    model_config = ConfigDict(extra="forbid", strict=True)
    texts: Annotated[
        list[Annotated[str, Field(max_length=MAX_CHARACTERS, pattern=r"\S")]],
        Field(min_length=1, max_length=MAX_ROWS),
    ]
    explain: Annotated[bool, Field(description="whether to answer who voted, by a run with neighbours")] = False
    probabilities: Annotated[bool, Field(description="whether to answer the probability of every label, `p_LABEL`")] = (
        False
    )


class Counted:
    """Counts answers by status and the seconds they took; a fault is logged and answered in a line.

    As plain ASGI: Starlette's decorator for middleware starts a task for each request, which costs more than the rest.
    """

    def __init__(self, app: ASGIApp, statuses: Counter[int], seconds: list[float]) -> None:
        self.app, self.statuses, self.seconds = app, statuses, seconds

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
        self.statuses[status] += 1
        self.seconds[0] += time.perf_counter() - started


class Direct:
    """Answers `POST /predict` itself: through the layers of FastAPI a request costs twice as much."""

    def __init__(self, app: ASGIApp, predict: Callable[[Request], Awaitable[JSONResponse]]) -> None:
        self.app, self.predict = app, predict

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request of any kind."""
        if scope["type"] != "http" or (scope["method"], scope["path"]) != ("POST", "/predict"):
            await self.app(scope, receive, send)
            return
        try:
            answer = await self.predict(Request(scope, receive))
        except Refusal as refusal:
            answer = refusal.answer()
        await answer(scope, receive, send)


def application(
    run: str, label_names: Sequence[str], batcher: Batcher, explains: bool, lifespan: Lifespan[FastAPI]
) -> ASGIApp:
    """The service of a run; `explains` says whether it has neighbours to show."""
    title = f"Kontrast: {run}"
    app = FastAPI(title=title, docs_url=None, redoc_url=None, lifespan=lifespan)  # their pages fetch from elsewhere
    statuses: Counter[int] = Counter()
    seconds = [0.0]

    refuse_in_one_line(app)

    body = {"content": {"application/json": {"schema": Question.model_json_schema()}}, "required": True}

    @app.post("/predict", openapi_extra={"requestBody": body}, summary="Predict texts, in their order")
    async def predict(request: Request) -> JSONResponse:
        question = parsed(Question, await body_of(request.receive))
        if question.explain and not explains:
            raise Refusal(400, "explain: found true, allowed: false; this run has no neighbours")
        try:
            answers = await batcher.answers([(text, question.probabilities) for text in question.texts])
        except Full:
            raise Refusal(503, "too many texts wait; ask again later") from None
        hidden = set() if question.explain else {"neighbours"}
        shown = [{key: value for key, value in answer.items() if key not in hidden} for answer in answers]
        return JSONResponse({"run": run, "predictions": shown})

    @app.get("/health", summary="Whether the service answers")
    async def health() -> dict[str, Any]:
        return {"status": "ok", "run": run, "labels": list(label_names)}

    @app.get("/metrics", summary="Counters, as Prometheus reads them")
    async def metrics() -> PlainTextResponse:
        lines = [f'kontrast_requests_total{{status="{status}"}} {number}' for status, number in statuses.items()]
        lines += [f"kontrast_request_seconds_total {seconds[0]:.6f}", f"kontrast_texts_total {batcher.texts}"]
        lines += [f"kontrast_batches_total {batcher.batches}", f"kontrast_texts_waiting {batcher.waiting}"]
        return PlainTextResponse("\n".join(lines) + "\n", media_type="text/plain; version=0.0.4")

    @app.get("/", include_in_schema=False)
    @app.get("/docs", include_in_schema=False)
    async def page() -> HTMLResponse:
        policy = {"Content-Security-Policy": "default-src 'self' 'unsafe-inline'", "X-Frame-Options": "DENY"}
        return HTMLResponse(PAGE.read_text(encoding="utf-8"), headers=policy)

    return Counted(Direct(app, predict), statuses, seconds)
