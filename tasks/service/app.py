"""The HTTP service: what may be asked, what is answered, what is refused."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from starlette.types import ASGIApp, Lifespan, Receive, Scope, Send

from datamodules.markup import without_markup
from storage.errors import short
from storage.tables import emptying, is_visible
from tasks.service.batching import Batcher, Full
from tasks.service.metrics import Counted, Counts, predicts
from tasks.service.requests import BODY_SECONDS, MAX_BODY, Refusal, body_of, parsed, refuse_in_one_line

MAX_ROWS = 1024
MAX_CHARACTERS = 100_000  # of a text
PAGES = {"/": "page.html", "/docs": "docs.html"}
REFUSALS = {
    400: "what this run cannot answer, or half a body",
    408: f"a body that did not come within {BODY_SECONDS:.0f} seconds",
    413: f"a body longer than {MAX_BODY} bytes",
    422: "a malformed body",
    500: "a fault of the service; its log says more",
    503: "too many texts wait",
}


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


def _refuse_missing(texts: Sequence[str], missing: Sequence[str]) -> None:
    """Raises Refusal where a text is one that the run was told stands for none."""
    emptied = emptying(missing)
    for place, text in enumerate(texts):
        if not emptied({"text": text})["text"]:
            raise Refusal(422, f"texts.{place}: {short(text)} stands for no text, as the run was told by missing=")


class Direct:
    """Answers `POST /predict` itself: through the layers of FastAPI a request costs twice as much."""

    def __init__(self, app: ASGIApp, predict: Callable[[Request], Awaitable[JSONResponse]]) -> None:
        self.app, self.predict = app, predict

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request of any kind."""
        if not predicts(scope):
            await self.app(scope, receive, send)
            return
        try:
            answer = await self.predict(Request(scope, receive))
        except Refusal as refusal:
            answer = refusal.answer()
        await answer(scope, receive, send)


def _response(when: str, example: Any, kind: str = "application/json") -> dict[str, Any]:
    return {"description": when, "content": {kind: {"example": example}}}


def application(
    run: str,
    label_names: Sequence[str],
    batcher: Batcher,
    explains: bool,
    strips_markup: bool,
    missing: Sequence[str],
    lifespan: Lifespan[FastAPI],
) -> ASGIApp:
    """The service of a run; `explains` says whether it has neighbours to show, `strips_markup` whether it reads texts
    without their markup, `missing` what it reads as no text."""
    title = f"Kontrast: {run}"
    app = FastAPI(title=title, docs_url=None, redoc_url=None, lifespan=lifespan)  # their pages fetch from elsewhere
    refuse_in_one_line(app)

    @app.post("/predict", summary="Predict texts, in their order", **_documented(run, label_names))
    async def predict(request: Request) -> JSONResponse:
        question = parsed(Question, await body_of(request.receive))
        if question.explain and not explains:
            raise Refusal(400, "explain: found true, allowed: false; this run has no neighbours")
        if strips_markup:
            _refuse_markup_alone(question.texts)
        if missing:
            _refuse_missing(question.texts, missing)
        try:
            answers = await batcher.answers([(text, question.probabilities) for text in question.texts])
        except Full:
            raise Refusal(503, "too many texts wait; ask again later") from None
        hidden = set() if question.explain else {"neighbours"}
        shown = [{key: value for key, value in answer.items() if key not in hidden} for answer in answers]
        return JSONResponse({"run": run, "predictions": shown})

    counts = Counts(batcher)
    _add_state(app, {"status": "ok", "run": run, "labels": list(label_names)}, counts)
    _add_pages(app)
    return Counted(Direct(app, predict), counts)


def _documented(run: str, label_names: Sequence[str]) -> dict[str, Any]:
    """What the description of the service says of `POST /predict`, which reads its body itself."""
    asked = {"schema": Question.model_json_schema(), "example": {"texts": ["a text"]}}
    answer = {"run": run, "predictions": [{"prediction": label_names[0], "probability": 0.9}]}
    return {
        "openapi_extra": {"requestBody": {"content": {"application/json": asked}, "required": True}},
        "responses": {
            200: _response("for each text, in order, the columns of task=predict", answer),
            **{status: _response(when, {"error": "one line"}) for status, when in REFUSALS.items()},
        },
    }


def _add_state(app: FastAPI, alive: dict[str, Any], counts: Counts) -> None:
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
        return PlainTextResponse(counts.text(), media_type="text/plain; version=0.0.4")


def _add_pages(app: FastAPI) -> None:
    @app.get("/", include_in_schema=False)
    @app.get("/docs", include_in_schema=False)
    async def page(request: Request) -> HTMLResponse:
        policy = {"Content-Security-Policy": "default-src 'self' 'unsafe-inline'", "X-Frame-Options": "DENY"}
        file = Path(__file__).with_name(PAGES[request.scope["path"]])
        return HTMLResponse(file.read_text(encoding="utf-8"), headers=policy)
