"""The doors of the three dialects. A call that takes no time never leaves its task: the fast path."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from starlette.types import ASGIApp, Receive, Scope, Send

from beacon_gpusim.dialects import BadInputError, Dialect, ExecuteDialect, ModalDialect, OpenAiDialect, Order
from beacon_gpusim.engine import Engine, Ticket
from beacon_gpusim.http.proxy_cut import PARAMETER, ProxyCut
from beacon_gpusim.http.stream import stream_answer
from beacon_gpusim.http.wire import ClientGoneError, Exchange, read_body, send_body, wait_gone
from beacon_gpusim.http.work import Work, tell_end, tell_failure
from beacon_lifecycle import TaskSet


@dataclass(frozen=True, slots=True)
class DoorRules:
    body_bytes: int
    refuse_unknown_models: bool


class Door:
    """An ASGI app: calls go to the engine, everything else to `rest`."""

    def __init__(self, engine: Engine, proxy_cut: ProxyCut, rules: DoorRules, *, rest: ASGIApp) -> None:
        region = engine.gpu.region
        self._dialects: dict[str, Dialect] = {
            "/modal": ModalDialect(region),
            "/v1/chat/completions": OpenAiDialect(region),
            "/v1/execute": ExecuteDialect(region),
        }
        self._engine = engine
        self._proxy_cut = proxy_cut
        self._rules = rules
        self._rest = rest
        self._watchers = TaskSet("gpusim.door")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        dialect = self._dialects.get(scope["path"]) if scope["type"] == "http" else None
        if dialect is None:
            await self._rest(scope, receive, send)
            return
        exchange = Exchange(scope, receive, send)
        if PARAMETER.encode() in scope["query_string"] and isinstance(dialect, ModalDialect):
            await self._proxy_cut.poll(dialect, exchange)
        elif scope["method"] != "POST":
            body = dialect.failure(405, "method_not_allowed", "only POST is served here")
            await send_body(send, 405, body, headers=[(b"allow", b"POST")])
        else:
            await self._call(dialect, exchange)

    async def close(self) -> None:
        await self._watchers.close()

    async def _call(self, dialect: Dialect, exchange: Exchange) -> None:
        try:
            body = await read_body(exchange.receive, self._rules.body_bytes)
            order = dialect.parse(body, exchange.header(b"x-request-id"))
            self._check_model(order)
        except BadInputError as error:
            await tell_failure(
                dialect, exchange.send, status=error.status, code=error.code, message=error.message
            )
            return
        except ClientGoneError:
            return
        ticket = self._engine.submit(order.request_id, dialect.name, order.prompt.model)
        work = Work(dialect, order, ticket)
        if isinstance(dialect, OpenAiDialect) and order.stream:
            with self._watching(ticket, exchange.receive):
                await stream_answer(work, dialect, self._engine, exchange)
        elif await self._over(work, exchange.receive):
            await tell_end(work, self._engine, exchange)
        else:
            await self._proxy_cut.redirect(work, exchange)

    def _check_model(self, order: Order) -> None:
        model = order.prompt.model
        if self._rules.refuse_unknown_models and model not in self._engine.gpu.times.models:
            raise BadInputError(f"the model {model!r} is not served here", status=404, code="model_not_found")

    async def _over(self, work: Work, receive: Receive) -> bool:
        """Wait for the end of the call; false when the proxy cut in first."""
        if work.ticket.done is None:
            return True
        with self._watching(work.ticket, receive):
            cut_s = self._proxy_cut.cut_s if isinstance(work.dialect, ModalDialect) else None
            return await work.ticket.wait_done(cut_s)

    @contextmanager
    def _watching(self, ticket: Ticket, receive: Receive) -> Iterator[None]:
        """Inside, the call is aborted when its client goes away."""
        if ticket.done is None:
            yield
            return
        watcher = self._watchers.spawn("client", self._abort_when_gone(ticket, receive))
        try:
            yield
        except asyncio.CancelledError:
            self._engine.abort(ticket)
            raise
        finally:
            watcher.cancel()

    async def _abort_when_gone(self, ticket: Ticket, receive: Receive) -> None:
        await wait_gone(receive)
        self._engine.abort(ticket)
