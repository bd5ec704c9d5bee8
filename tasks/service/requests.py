"""What a service makes of requests: bodies of bounded size and time, and one line for a bad one."""

from __future__ import annotations

import asyncio
import socket
from typing import TypeVar

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.types import Receive

BACKLOG = 2048  # connections that wait to be taken
MAX_BODY = 8 << 20  # bytes
BODY_SECONDS = 30.0  # within which a request must have come
Asked = TypeVar("Asked", bound=BaseModel)


def listen(listener: socket.socket) -> None:
    """Take connections from now on, before the address is said: who reads it may ask at once.

    Answers go out as they are written. Without that an answer's second packet waits some 40 ms for the
    acknowledgement of its first, and asyncio does it for none of the sockets that uvicorn binds.
    """
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # what it accepts has it too
    listener.listen(BACKLOG)


def address_of(host: str, port: int) -> str:
    """`host:port` as it stands in an address: a host of IPv6 in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class Refusal(Exception):
    """A request that cannot be answered: a status, and a line that says why."""

    def __init__(self, status: int, line: str) -> None:
        self.status, self.line = status, line

    def answer(self) -> JSONResponse:
        """`{"error": LINE}`, of its status."""
        return JSONResponse({"error": self.line}, self.status)


def refuse_in_one_line(app: FastAPI) -> None:
    """Answer a refusal, and an address that is not there, with `{"error": LINE}`."""

    @app.exception_handler(Refusal)
    async def refuse(_: Request, refusal: Refusal) -> JSONResponse:
        return refusal.answer()

    @app.exception_handler(HTTPException)
    async def refuse_place(request: Request, error: HTTPException) -> JSONResponse:
        return JSONResponse({"error": f"{request.method} {request.url.path}: {error.detail}"}, error.status_code)


async def body_of(receive: Receive) -> bytes:
    """The body of a request. Raises Refusal where it is too large, or does not come."""
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await _limited(receive)
    except TimeoutError:
        raise Refusal(408, f"the body did not come within {BODY_SECONDS:.0f} seconds") from None


async def _limited(receive: Receive) -> bytes:
    body, more = bytearray(), True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refusal(400, "the connection was closed before the body had come")
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > MAX_BODY:
            raise Refusal(413, f"the body is longer than {MAX_BODY} bytes")
    return bytes(body)


def parsed(kind: type[Asked], body: bytes) -> Asked:
    """What a body asks. Raises Refusal, with the first thing that is wrong."""
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "body"
        wrong = "no text with a visible character" if first["type"] == "string_pattern_mismatch" else first["msg"]
        wrong = wrong.removeprefix("Value error, ")  # which pydantic puts before what a check of ours says
        raise Refusal(422, f"{where}: {' '.join(wrong.split())[:200]}") from None
