"""A stub of the runner on a real socket: responses are scripted per path, and every call is recorded."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import orjson
from aiohttp import web

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Call:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes


class RunnerStub:
    """`answers["GET /path"]` are given in order; the last one stays."""

    def __init__(self) -> None:
        self.answers: dict[str, list[Answer]] = defaultdict(list)
        self.calls: list[Call] = []
        self.url = ""

    def on(self, route: str, *answers: Any) -> None:
        """Each answer is a handler, or a document that is sent with status 200."""
        for answer in answers:
            self.answers[route].append(answer if callable(answer) else document(answer))

    def of(self, route: str) -> list[Call]:
        return [call for call in self.calls if f"{call.method} {call.path}" == route]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.calls.append(Call(request.method, request.path, dict(request.query), headers, body))
        scripted = self.answers[f"{request.method} {request.path}"]
        if not scripted:
            return await problem(404, "not_found", "there is no such thing")(request)
        answer = scripted.pop(0) if len(scripted) > 1 else scripted[0]
        return await answer(request)


def document(value: Any, status: int = 200) -> Answer:
    async def answer(_request: web.Request) -> web.StreamResponse:
        return web.Response(body=orjson.dumps(value), status=status, content_type="application/json")

    return answer


def problem(status: int, code: str, detail: str, **more: Any) -> Answer:
    return document({"title": code, "status": status, "code": code, "detail": detail, **more}, status)


def raw(content: bytes, *, cut_after: int | None = None) -> Answer:
    """Bytes from the start of the requested range; `cut_after` so many the connection breaks."""

    async def answer(request: web.Request) -> web.StreamResponse:
        start = int(request.headers.get("range", "bytes=0-").removeprefix("bytes=").removesuffix("-"))
        response = web.StreamResponse(status=206 if start else 200)
        response.content_length = len(content) - start
        await response.prepare(request)
        await response.write(content[start:][:cut_after])
        if cut_after is not None and request.transport is not None:
            request.transport.close()
        return response

    return answer


def page(status: int, text: str, **headers: str) -> Answer:
    """An HTML page, as a proxy sends it."""

    async def answer(_request: web.Request) -> web.StreamResponse:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.Response(text=text, status=status, content_type="text/html", headers=named)

    return answer


async def cut(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


def stream(*chunks: str, stay: asyncio.Event | None = None, then_cut: bool = False) -> Answer:
    """Server-sent events: `stay` keeps the connection open until it is set; `then_cut` breaks it off."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk.encode())
        if stay is not None:
            await stay.wait()
        if then_cut and request.transport is not None:
            request.transport.abort()
        return response

    return answer


def event(seq: int, kind: str, **data: Any) -> str:
    body = {"seq": seq, "type": kind, "job_id": "job_a", "at": "2026-01-01T00:00:00Z", "data": data}
    return f"id: {seq}\nevent: {kind}\ndata: {orjson.dumps(body).decode()}\n\n"


@asynccontextmanager
async def runner_stub() -> AsyncIterator[RunnerStub]:
    runner = RunnerStub()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", runner.handle)
    served = web.AppRunner(app, shutdown_timeout=0.01, handler_cancellation=True)
    await served.setup()
    site = web.TCPSite(served, "127.0.0.1", 0)
    await site.start()
    runner.url = f"http://127.0.0.1:{served.addresses[0][1]}"
    try:
        yield runner
    finally:
        await served.cleanup()
