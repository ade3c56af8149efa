"""The endpoint of one dialect: parse the call, run it on the engine, respond when it ends."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope, Send

from beacon_gpusim.dialects import (
    BadInputError,
    ParsedCall,
    SimulatedDialect,
    SimulatedModal,
    SimulatedOpenAi,
)
from beacon_gpusim.engine import CallHandle, SimulationEngine
from beacon_gpusim.http.exchange import HttpExchange
from beacon_gpusim.http.pending_call import PendingCall, respond_error, respond_to_ended
from beacon_gpusim.http.progress import PROGRESS_PARAMETER, respond_with_progress
from beacon_gpusim.http.proxy_timeout import CALL_ID_PARAMETER, ProxyTimeout
from beacon_gpusim.http.stream import respond_streamed
from beacon_lifecycle import TaskSet

# Loop iterations between the end of a connection being read and its call being aborted.
_DISCONNECT_ITERATIONS = 3


@dataclass(frozen=True, slots=True)
class CallRules:
    body_bytes: int
    refuse_unknown_models: bool


class CallEndpoint:
    """An ASGI endpoint. `tasks` owns the tasks that watch for disconnects."""

    def __init__(
        self,
        dialect: SimulatedDialect,
        engine: SimulationEngine,
        proxy_timeout: ProxyTimeout,
        rules: CallRules,
        tasks: TaskSet,
    ) -> None:
        self._dialect = dialect
        self._engine = engine
        self._proxy_timeout = proxy_timeout
        self._rules = rules
        self._tasks = tasks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = HttpExchange(Request(scope, receive, send), send)
        if self._behind_proxy and CALL_ID_PARAMETER in exchange.request.query_params:
            await self._proxy_timeout.poll(self._dialect, exchange)
        elif exchange.request.method != "POST":
            raise HTTPException(405, headers={"Allow": "POST"})
        else:
            await self._call(exchange)

    @property
    def _behind_proxy(self) -> bool:
        return isinstance(self._dialect, SimulatedModal)

    async def _call(self, exchange: HttpExchange) -> None:
        try:
            parsed = self._parse(
                await exchange.read_body(self._rules.body_bytes), exchange.request.headers.get("x-request-id")
            )
        except BadInputError as error:
            await respond_error(self._dialect, exchange, error.status, error.code, error.message)
            return
        except ClientDisconnect:
            return
        # A disconnect that was read in the same loop iteration as this call frees its slot first.
        for _ in range(_DISCONNECT_ITERATIONS):
            await asyncio.sleep(0)
        handle = self._engine.submit(parsed.request_id, self._dialect.name, parsed.prompt.model)
        pending = PendingCall(self._dialect, parsed, handle)
        if PROGRESS_PARAMETER in exchange.request.query_params:
            with self._abort_on_disconnect(handle, exchange):
                await respond_with_progress(pending, self._engine, exchange)
        elif isinstance(self._dialect, SimulatedOpenAi) and parsed.stream:
            with self._abort_on_disconnect(handle, exchange):
                await respond_streamed(pending, self._dialect, self._engine, exchange)
        elif await self._ended(handle, exchange):
            await respond_to_ended(pending, self._engine, exchange)
        else:
            await self._proxy_timeout.redirect(pending, exchange)

    def _parse(self, body: bytes, request_id: str | None) -> ParsedCall:
        parsed = self._dialect.parse(body, request_id)
        model = parsed.prompt.model
        if self._rules.refuse_unknown_models and model not in self._engine.gpu.durations.models:
            raise BadInputError(f"the model {model!r} is not served here", status=404, code="model_not_found")
        return parsed

    async def _ended(self, handle: CallHandle, exchange: HttpExchange) -> bool:
        """Wait until the call has ended; false when the proxy timeout passed first."""
        with self._abort_on_disconnect(handle, exchange):
            return await handle.wait_done(self._proxy_timeout.timeout_s if self._behind_proxy else None)

    @contextmanager
    def _abort_on_disconnect(self, handle: CallHandle, exchange: HttpExchange) -> Iterator[None]:
        """Inside, the call is aborted when its client disconnects."""
        if handle.done is None:  # it ended at once
            yield
            return
        watcher = self._tasks.spawn("client", self._wait_and_abort(handle, exchange))
        try:
            yield
        except asyncio.CancelledError:
            self._engine.abort(handle)
            raise
        finally:
            watcher.cancel()

    async def _wait_and_abort(self, handle: CallHandle, exchange: HttpExchange) -> None:
        await exchange.wait_disconnected()
        self._engine.abort(handle)
