"""A stub of the router on a real socket: batches, and single inferences by id, without GPUs."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import orjson
from aiohttp import web

from tests.fixtures.waiting import within_timeout

ENDED = ("completed", "failed", "cancelled")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class RouterStub:
    """Holds requests until the test ends them; `next_answers` are given first, in order, instead.

    `calls` has "send <id>" and "poll <id>" for each entry of a batch, and method and path of other calls;
    `cancels` the query of each DELETE.
    """

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.batches = 0
        self.open_batches = 0
        self.most_open_batches = 0
        self.headers: list[dict[str, str]] = []
        self.bodies: list[dict[str, Any]] = []
        self.next_answers: list[Handler] = []
        self.cancels: list[dict[str, str]] = []
        self.reports: dict[str, int] = {}
        self.known: dict[str, dict[str, Any]] = {}
        self.changed = asyncio.Condition()
        self.url = ""
        self.port = 0
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, shutdown_timeout=0.01, handler_cancellation=True)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True)
        await site.start()
        self.port = self._runner.addresses[0][1]
        self.url = f"http://127.0.0.1:{self.port}"

    async def die(self) -> None:
        """Stop at once and forget everything, as a killed process does."""
        self.known.clear()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def finish(self, request_id: str, **fields: Any) -> None:
        async with self.changed:
            self.known[request_id] |= {"state": "completed", "output": {"text": "done"}, **fields}
            self.changed.notify_all()

    async def report(self, request_id: str, **fields: Any) -> None:
        """Its state has changed and it has not ended: a line with status 102."""
        async with self.changed:
            self.known[request_id] |= fields
            self.reports[request_id] = self.reports.get(request_id, 0) + 1
            self.changed.notify_all()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with within_timeout("the router has heard of it"), self.changed:
            await self.changed.wait_for(condition)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        batch = orjson.loads(await request.read()) if request.path == "/inference/batch" else None
        async with self.changed:
            self.calls += [f"{request.method} {request.path}"] if batch is None else _entries(batch)
            self.headers.append({name.lower(): value for name, value in request.headers.items()})
            self.changed.notify_all()
        if self.next_answers:
            return await self.next_answers.pop(0)(request)
        if batch is not None:
            return await self._exchange(request, batch)
        if request.path == "/queue/status":
            return json_answer(_queues(len(self.known)))
        return await self._look(request)

    async def _exchange(self, request: web.Request, batch: dict[str, Any]) -> web.StreamResponse:
        self.bodies += batch["requests"]
        async with self.changed:
            for body in batch["requests"]:
                self.known.setdefault(body["request_id"], view_of(body))
            self.batches += 1
            self.open_batches += 1
            self.most_open_batches = max(self.most_open_batches, self.open_batches)
            self.changed.notify_all()
        try:
            response = web.StreamResponse(headers={"content-type": "application/x-ndjson"})
            await response.prepare(request)
            left = [body["request_id"] for body in batch["requests"]] + batch["poll"]
            await self._write_lines(request, response, left)
            await response.write_eof()
        finally:
            self.open_batches -= 1
        return response

    async def _write_lines(self, request: web.Request, response: web.StreamResponse, left: list[str]) -> None:
        _, _, seconds = request.headers.get("Prefer", "wait=0").partition("wait=")
        seen: dict[str, int] = {}
        try:
            async with asyncio.timeout(float(seconds)):
                while left:
                    async with self.changed:
                        await self.changed.wait_for(lambda: any(self._has_line(one, seen) for one in left))
                    for request_id in [one for one in left if self.reports.get(one, 0) > seen.get(one, 0)]:
                        seen[request_id] = self.reports[request_id]
                        if not self._has_answer(request_id):
                            await response.write(line_of(request_id, 102, self.known[request_id]))
                    for request_id in [one for one in left if self._has_answer(one)]:
                        left.remove(request_id)
                        await response.write(self._line(request_id))
        except TimeoutError:
            await response.write(b"".join(map(self._line, left)))

    def _has_line(self, request_id: str, seen: dict[str, int]) -> bool:
        return self._has_answer(request_id) or self.reports.get(request_id, 0) > seen.get(request_id, 0)

    def _has_answer(self, request_id: str) -> bool:
        view = self.known.get(request_id)
        return view is None or view["state"] in ENDED

    def _line(self, request_id: str) -> bytes:
        view = self.known.get(request_id)
        if view is None:
            return line_of(request_id, 404, problem_document(404, "unknown_inference", "who?"))
        return line_of(request_id, 200 if view["state"] in ENDED else 202, view)

    async def _look(self, request: web.Request) -> web.StreamResponse:
        request_id = request.path.removeprefix("/inference/")
        if request_id not in self.known:
            return problem_answer(404, "not_found", "there is no such request")
        if request.method == "DELETE":
            self.cancels.append(dict(request.query))
            await self.finish(request_id, state="cancelled", output=None)
        view = self.known[request_id]
        return json_answer(view, 200 if view["state"] in ENDED else 202)


def _entries(batch: dict[str, Any]) -> list[str]:
    return [f"send {body['request_id']}" for body in batch["requests"]] + [
        f"poll {request_id}" for request_id in batch["poll"]
    ]


def _queues(waiting: int) -> dict[str, Any]:
    return {
        "regions": {},
        "global_retry": 0,
        "backing_off": 0,
        "waiting": waiting,
        "running": 0,
        "held_bytes": 0,
    }


def view_of(body: dict[str, Any]) -> dict[str, Any]:
    return {
        "request_id": body["request_id"],
        "state": "queued",
        "model": body["model"],
        "requested_region": body["region"],
        "fence": body["fence"],
    }


def json_answer(body: Any, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(
        body=orjson.dumps(body), status=status, content_type="application/json", headers=headers
    )


def line_of(request_id: str | None, status: int, document: dict[str, Any]) -> bytes:
    return orjson.dumps(
        {"request_id": request_id, "status": status, "document": document}, option=orjson.OPT_APPEND_NEWLINE
    )


def problem_document(status: int, code: str, detail: str) -> dict[str, Any]:
    return {"title": code, "status": status, "code": code, "detail": detail}


def problem_answer(status: int, code: str, detail: str, **headers: str) -> web.Response:
    document = problem_document(status, code, detail)
    return json_answer(document, status, {name.replace("_", "-"): value for name, value in headers.items()})


async def cut(request: web.Request) -> web.StreamResponse:
    """Read the request, then close the connection without a response."""
    await request.read()
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


def refuse(status: int, code: str, detail: str, **headers: str) -> Handler:
    async def answer(_request: web.Request) -> web.StreamResponse:
        return problem_answer(status, code, detail, **headers)

    return answer


async def no_answer(request: web.Request) -> web.StreamResponse:
    """Read the request and answer nothing until the connection ends, as a router that is frozen."""
    await request.read()
    await asyncio.Event().wait()
    return web.Response()


@asynccontextmanager
async def router_stub() -> AsyncIterator[RouterStub]:
    router = RouterStub()
    await router.start()
    try:
        yield router
    finally:
        await router.die()
