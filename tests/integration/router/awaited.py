"""A backend that a test can await, over real connections."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from yarl import URL

from beacon_config.topology import Dialect
from beacon_lifecycle import SystemClock
from beacon_router.backends import Answer, Backend, BackendCall, Pool, Result
from beacon_router.backends.http import HttpBackend
from beacon_router.backends.registry import dialect_of
from beacon_router.service.streams import StreamSink

PATHS = {Dialect.MODAL: "/modal", Dialect.OPENAI: "/v1", Dialect.EXECUTE: "/v1/execute"}


class AwaitedBackend:
    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def run(self, call: BackendCall, sink: StreamSink | None = None) -> Answer:
        """The answer, or its BackendError; cancelling this cancels the attempt."""
        came: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        attempt = self._backend.start(call, came.set_result, sink)
        try:
            result = await came
        except asyncio.CancelledError:
            attempt.cancel()
            raise
        if isinstance(result, Answer):
            return result
        raise result


def awaited(dialect: str, url: str, pool: Pool, *, answer_bytes: int = 100_000) -> AwaitedBackend:
    name = Dialect(dialect)
    spoken = dialect_of(name, URL(url + PATHS[name]), {})
    return AwaitedBackend(HttpBackend(spoken, pool, SystemClock(), answer_bytes=answer_bytes))


@asynccontextmanager
async def open_pool(**settings: float) -> AsyncIterator[Pool]:
    pool = Pool(**settings)
    try:
        yield pool
    finally:
        await pool.stop()
