"""The HTTP service: what may be asked, what is answered, what is refused."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from tasks.serve.batching import Batcher, Full

MAX_BODY = 8 << 20  # bytes
MAX_ROWS = 1024
MAX_CHARACTERS = 100_000  # of a text
BODY_SECONDS = 30.0  # within which a request must have come
PAGE = Path(__file__).with_name("page.html")
log = logging.getLogger(__name__)


class Question(BaseModel):
    """Texts to predict."""

    model_config = ConfigDict(extra="forbid", strict=True)
    texts: Annotated[
        list[Annotated[str, Field(max_length=MAX_CHARACTERS, pattern=r"\S")]],
        Field(min_length=1, max_length=MAX_ROWS),
    ]
    explain: bool = False


class Refusal(Exception):
    """A request that cannot be answered: a status, and a line that says why."""

    def __init__(self, status: int, line: str) -> None:
        self.status, self.line = status, line


def application(run: str, label_names: Sequence[str], batcher: Batcher, explains: bool) -> FastAPI:
    """The service of a run; `explains` says whether it has neighbours to show."""
    app = FastAPI(title=f"Kontrast: {run}", docs_url=None, redoc_url=None)  # their pages fetch scripts from elsewhere
    statuses: Counter[int] = Counter()
    seconds = [0.0]

    @app.exception_handler(Refusal)
    async def refuse(_: Request, refusal: Refusal) -> JSONResponse:
        return JSONResponse({"error": refusal.line}, refusal.status)

    @app.exception_handler(HTTPException)
    async def refuse_place(request: Request, error: HTTPException) -> JSONResponse:
        return JSONResponse({"error": f"{request.method} {request.url.path}: {error.detail}"}, error.status_code)

    @app.middleware("http")
    async def count(request: Request, call_next: Any) -> Any:
        started = time.perf_counter()
        try:
            response = await call_next(request)
        except Exception:
            log.exception("a request failed")
            response = JSONResponse({"error": "a fault of the service; its log says more"}, 500)
        statuses[response.status_code] += 1
        seconds[0] += time.perf_counter() - started
        return response

    body = {"content": {"application/json": {"schema": Question.model_json_schema()}}, "required": True}

    @app.post("/predict", openapi_extra={"requestBody": body}, summary="Predict texts, in their order")
    async def predict(request: Request) -> JSONResponse:
        question = parsed(await body_of(request))
        if question.explain and not explains:
            raise Refusal(400, "explain: found true, allowed: false; this run has no neighbours")
        try:
            futures = batcher.submit(question.texts)
        except Full:
            raise Refusal(503, "too many texts wait; ask again later") from None
        answers = await asyncio.gather(*map(asyncio.wrap_future, futures))
        hidden = set() if question.explain else {"neighbours"}
        shown = [{key: value for key, value in answer.items() if key not in hidden} for answer in answers]
        return JSONResponse({"run": run, "predictions": shown})

    @app.get("/health", summary="Whether the service answers")
    async def health() -> dict[str, Any]:
        return {"status": "ok", "run": run, "labels": list(label_names)}

    @app.get("/metrics", summary="Counters, as Prometheus reads them")
    async def metrics() -> PlainTextResponse:
        lines = [f'kontrast_requests_total{{status="{status}"}} {number}' for status, number in statuses.items()]
        lines += [f"kontrast_request_seconds_total {seconds[0]:.6f}", f"kontrast_texts_total {batcher.rows}"]
        lines += [f"kontrast_batches_total {batcher.batches}", f"kontrast_texts_waiting {batcher.queue.qsize()}"]
        return PlainTextResponse("\n".join(lines) + "\n", media_type="text/plain; version=0.0.4")

    @app.get("/", include_in_schema=False)
    @app.get("/docs", include_in_schema=False)
    async def page() -> HTMLResponse:
        policy = {"Content-Security-Policy": "default-src 'self' 'unsafe-inline'", "X-Frame-Options": "DENY"}
        return HTMLResponse(PAGE.read_text(encoding="utf-8"), headers=policy)

    return app


async def body_of(request: Request) -> bytes:
    """The body of a request. Raises Refusal where it is too large, or does not come."""
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await _limited(request.stream())
    except TimeoutError:
        raise Refusal(408, f"the body did not come within {BODY_SECONDS:.0f} seconds") from None
    except ClientDisconnect:
        raise Refusal(400, "the connection was closed before the body had come") from None


async def _limited(chunks: AsyncIterator[bytes]) -> bytes:
    body = bytearray()
    async for chunk in chunks:
        body += chunk
        if len(body) > MAX_BODY:
            raise Refusal(413, f"the body is longer than {MAX_BODY} bytes")
    return bytes(body)


def parsed(body: bytes) -> Question:
    """What a body asks. Raises Refusal, with the first thing that is wrong."""
    try:
        return Question.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "body"
        wrong = "no text with a visible character" if first["type"] == "string_pattern_mismatch" else first["msg"]
        raise Refusal(422, f"{where}: {' '.join(wrong.split())[:200]}") from None
