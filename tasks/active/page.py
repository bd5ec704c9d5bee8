"""The page that asks for labels: a small service on this machine, for whoever has its address."""

from __future__ import annotations

import secrets
import tempfile
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from labelling.desk import Desk
from labelling.formats import WRITERS, read_answers
from labelling.keys import CLASS_KEYS
from storage.errors import InputError, ReportError
from tasks.service.requests import Refusal, address_of, body_of, listen, parsed, refuse_in_one_line

PAGE = Path(__file__).with_name("page.html")
LOCAL = ("127.0.0.1", "localhost")
EVERYWHERE = ("0.0.0.0", "::")
IMPORTED = (".csv", ".tsv", ".json", ".jsonl", ".xlsx", ".xlsm", ".parquet")


class Asked(BaseModel):
    """Who asks: a browser, and the name of the person."""

    model_config = ConfigDict(extra="forbid", strict=True)
    seat: Annotated[str, Field(min_length=1, max_length=64)]
    annotator: Annotated[str, Field(max_length=64)] = ""


class Said(Asked):
    """An answer to a text of the pool."""

    position: int
    label: Annotated[str, Field(max_length=1000)] | Annotated[list[str], Field(max_length=1000)]
    note: Annotated[str, Field(max_length=2000)] = ""


class Opened(Asked):
    """An answered text that is to be changed."""

    position: int


class Sought(Asked):
    """Words that answers are searched for."""

    words: Annotated[str, Field(max_length=1000)] = ""


class NewClass(Asked):
    """A class to add."""

    name: Annotated[str, Field(max_length=200)]


class LabellingPage:
    """The service in a thread of its own, from `start` to `stop`.

    Only this machine reaches it by default. Each address holds a random word, without which nothing is answered; the
    names under which it may be called are checked, so that no other site's page can ask it anything.

    Args:
        desk: the texts and their answers.
        host, port: where it listens; port 0: a free one.
        text_column, label_column: of tables that a person imports.
        cleaned: makes of a text that is imported what the pool has of it.
    """

    def __init__(
        self,
        desk: Desk,
        host: str,
        port: int,
        text_column: str = "text",
        label_column: str = "label",
        cleaned: Callable[[str], str] = str,
    ) -> None:
        self.desk, self.host, self.token = desk, host, secrets.token_urlsafe(16)
        self.columns, self.cleaned = (text_column, label_column), cleaned
        settings = uvicorn.Config(application(self), host, port, log_config=None, access_log=False)
        try:
            self._socket = settings.bind_socket()
        except SystemExit as error:
            raise ReportError(f"active.port: {host}:{port} cannot be listened on; allowed: another port") from error
        self.port = int(self._socket.getsockname()[1])
        self._server = uvicorn.Server(settings)
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), name="page", daemon=True)

    @property
    def address(self) -> str:
        """What a person opens."""
        host = LOCAL[0] if self.host in EVERYWHERE else self.host
        return f"http://{address_of(host, self.port)}/?token={self.token}"

    def start(self) -> None:
        """Listen from now on."""
        listen(self._socket)
        self._thread.start()

    def stop(self) -> None:
        """Answer what has been asked, and end."""
        self._server.should_exit = True
        self._thread.join(timeout=10)

    def refusal(self, request: Request) -> str | None:
        """Why a request is none of a page of ours, or None."""
        host, origin = _without_port_80(request.headers.get("host", "")), request.headers.get("origin")
        hosts = {_without_port_80(address_of(name, self.port)) for name in (*LOCAL, self.host)}
        if self.host not in EVERYWHERE and host not in hosts:
            return "this is not the address of the page"
        if origin is not None and _without_port_80(origin) != f"http://{host}":
            return "another site's page asks"
        token = request.headers.get("x-token") or (request.query_params.get("token") if request.method == "GET" else "")
        if not secrets.compare_digest((token or "").encode(), self.token.encode()):
            return "the address lacks its token; open the one that the program printed"
        return None


def _without_port_80(address: str) -> str:
    """A host, or an origin, as browsers name it: they leave the port of HTTP out."""
    return address.removesuffix(":80")


def application(page: LabellingPage) -> FastAPI:
    """The addresses of the service; everything but the page itself is JSON."""
    app = FastAPI(title="Kontrast: labels", docs_url=None, redoc_url=None, openapi_url=None)
    _guard(app, page)
    _add_questions(app, page.desk)
    _add_files(app, page)

    @app.get("/")
    async def show() -> HTMLResponse:
        nonce = secrets.token_urlsafe(12)
        keys = "".join(CLASS_KEYS)
        text = PAGE.read_text(encoding="utf-8").replace("NONCE", nonce).replace("CLASS_KEYS", keys)
        allowed = f"'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'; img-src data:; base-uri 'none'"
        policy = f"default-src 'none'; script-src {allowed}; form-action 'none'; frame-ancestors 'none'"
        return HTMLResponse(text, headers={"Content-Security-Policy": policy})

    return app


def _guard(app: FastAPI, page: LabellingPage) -> None:
    """Refuse who is not of the page, and in one line what is wrong."""
    refuse_in_one_line(app)

    @app.exception_handler(InputError)
    async def refuse_input(_: Request, error: InputError) -> JSONResponse:
        return JSONResponse({"error": str(error)}, 422)

    @app.exception_handler(ReportError)
    async def refuse_to_lose(_: Request, error: ReportError) -> JSONResponse:  # nothing can be written
        return JSONResponse({"error": str(error)}, 507)

    @app.middleware("http")
    async def check(request: Request, call_next: Any) -> Any:
        if (line := page.refusal(request)) is not None:
            return JSONResponse({"error": line}, 403)
        response = await call_next(request)
        response.headers["Cache-Control"] = "no-store"
        response.headers["Referrer-Policy"] = "no-referrer"
        response.headers["X-Content-Type-Options"] = "nosniff"
        return response


def _add_questions(app: FastAPI, desk: Desk) -> None:
    """What the page asks of the desk."""

    def answers_to(path: str, kind: type[Any], work: Callable[[Any], Any]) -> None:
        """POST `path` with a body of this kind is answered by `work`, outside the loop that takes requests."""

        @app.post(path)
        async def answer(request: Request) -> JSONResponse:
            asked = parsed(kind, await body_of(request.receive))
            return JSONResponse(await run_in_threadpool(work, asked))

    def say(said: Said) -> dict[str, Any]:
        label = said.label if isinstance(said.label, str) else tuple(said.label)
        desk.answer(said.seat, said.annotator, said.position, label, said.note)
        return desk.question(said.seat, said.annotator)

    def add(new: NewClass) -> dict[str, Any]:
        desk.add_class(new.name)
        return desk.state(new.seat)

    def finish(asked: Asked) -> dict[str, Any]:
        desk.finish()
        return desk.state(asked.seat)

    answers_to("/state", Asked, lambda asked: desk.state(asked.seat))
    answers_to("/question", Asked, lambda asked: desk.question(asked.seat, asked.annotator))
    answers_to("/answer", Said, say)
    answers_to("/undo", Asked, lambda asked: desk.undo(asked.seat, asked.annotator))
    answers_to("/open", Opened, lambda opened: desk.open(opened.annotator, opened.position))
    answers_to("/answers", Sought, lambda sought: {"answers": desk.find(sought.words)})
    answers_to("/classes", NewClass, add)
    answers_to("/finish", Asked, finish)
    answers_to("/leave", Asked, lambda asked: desk.leave(asked.seat))


def _add_files(app: FastAPI, page: LabellingPage) -> None:
    """Answers as files, out and in."""
    desk = page.desk

    @app.get("/export/{name}")
    async def export(name: str) -> Response:
        if name not in WRITERS:
            raise Refusal(404, f"export: found {name}; allowed: {', '.join(WRITERS)}")
        write, file = WRITERS[name]
        text = await run_in_threadpool(lambda: write(desk.answers(), desk.book.separator))
        return PlainTextResponse(text, headers={"Content-Disposition": f'attachment; filename="{file}"'})

    @app.post("/import/{name}")
    async def import_file(name: str, request: Request) -> JSONResponse:
        body = await body_of(request.receive)
        return JSONResponse(await run_in_threadpool(_imported, page, name, body))


def _imported(page: LabellingPage, name: str, body: bytes) -> dict[str, int]:
    """Answers of a file that was sent. Raises InputError: no format of ours, a label that is no class."""
    suffix = Path(name).suffix.lower()
    if suffix not in IMPORTED:
        raise InputError(f"{name}: found no format that is known; allowed: {', '.join(IMPORTED)}")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"import{suffix}"
        file.write_bytes(body)
        try:
            answers = read_answers(file, *page.columns, page.desk.book.separator)
        except InputError as error:
            raise InputError(str(error).replace(str(file), name)) from error
    kept, unknown = page.desk.take_over([replace(answer, text=page.cleaned(answer.text)) for answer in answers])
    return {"kept": kept, "unknown": unknown, "in_file": len(answers)}
