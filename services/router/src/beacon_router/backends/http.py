"""Carries out calls over HTTP, in the words of a dialect: every way to fail becomes a BackendError."""

import asyncio
from collections.abc import Callable
from typing import Protocol

import orjson
import structlog

from beacon_contracts.failures import FailureStage
from beacon_lifecycle import Clock
from beacon_router.backends.connection import Connection, Reply
from beacon_router.backends.endpoint import Outgoing
from beacon_router.backends.errors import bad_payload, status_error
from beacon_router.backends.pool import Pool
from beacon_router.backends.types import Answer, BackendCall, BackendError, Result, Sink

log = structlog.get_logger(__name__)

# Modal answers each look after 150 s at the latest; the run limit ends a real run long before this.
_MOST_STEPS = 1_000


class Dialect(Protocol):
    """Pure: from a call to a request, from an answer to what it means. Raises BackendError."""

    streams: bool

    def ask(self, call: BackendCall, *, stream: bool) -> Outgoing: ...

    def read(self, reply: Reply) -> Answer:
        """What an answer with status 200 says."""
        ...

    def following(self, reply: Reply) -> Outgoing | None:
        """Where the same call goes on, when this is what the answer says."""
        ...


class HttpBackend:
    def __init__(self, dialect: Dialect, pool: Pool, clock: Clock, *, answer_bytes: int) -> None:
        self._dialect = dialect
        self._pool = pool
        self._clock = clock
        self._answer_bytes = answer_bytes

    def start(
        self, call: BackendCall, ended: Callable[[Result], None], sink: Sink | None = None
    ) -> "HttpAttempt":
        sink = sink if self._dialect.streams else None
        outgoing = self._dialect.ask(call, stream=sink is not None)
        attempt = HttpAttempt(self, self._pool, ended, self._answer_bytes, sink)
        attempt.send(outgoing)
        return attempt

    def result(self, reply: Reply, *, streamed: bool) -> Result | Outgoing:
        """What an answer means: the end, or that the call goes on elsewhere."""
        try:
            if reply.status == 200:
                return Answer(output=b"null") if streamed else self._dialect.read(reply)
            return self._dialect.following(reply) or self._refused(reply)
        except BackendError as error:
            return error
        except Exception as error:
            log.exception("answer_not_read", dialect=type(self._dialect).__name__)
            return BackendError("internal_error", FailureStage.RUN, False, repr(error)[:300])

    def _refused(self, reply: Reply) -> BackendError:
        text = reply.body[:2000].decode("utf-8", "replace")
        return status_error(reply.status, text, reply.headers.get("retry-after"), self._clock.wall())


class HttpAttempt:
    """One call on its way. Where a connection is free it needs no task, only the connection's news."""

    __slots__ = (
        "_backend",
        "_connection",
        "_ended",
        "_most",
        "_opening",
        "_outgoing",
        "_pool",
        "_reused",
        "_sink",
        "_steps",
    )

    def __init__(
        self,
        backend: HttpBackend,
        pool: Pool,
        ended: Callable[[Result], None],
        most: int,
        sink: Sink | None,
    ) -> None:
        self._backend = backend
        self._pool = pool
        self._ended = ended
        self._most = most
        self._sink = sink
        self._connection: Connection | None = None
        self._opening: asyncio.Task[None] | None = None
        self._outgoing: Outgoing | None = None
        self._reused = False
        self._steps = 0

    def send(self, outgoing: Outgoing) -> None:
        self._outgoing = outgoing
        connection = self._pool.take(outgoing.origin)
        if connection is None:
            self._send_anew(outgoing)
        else:
            self._reused = True
            self._send_over(connection, outgoing)

    def cancel(self) -> None:
        if self._opening is not None:
            self._opening.cancel()
        if self._connection is not None:
            self._connection.abort()
        self._opening = self._connection = None

    # What the connection says

    def replied(self, reply: Reply) -> None:
        self._connection = None
        result = self._backend.result(reply, streamed=self._sink is not None)
        if not isinstance(result, Outgoing):
            self._ended(result)
            return
        self._steps += 1
        if self._steps > _MOST_STEPS:
            self._ended(bad_payload(f"the backend redirected {_MOST_STEPS} times"))
        else:
            self.send(result)

    def lost(self, error: BackendError, *, silent: bool) -> None:
        """A kept connection may have been closed just before the sending: what is harmless goes out again."""
        self._connection = None
        outgoing = self._outgoing
        if silent and self._reused and outgoing is not None and outgoing.repeatable:
            self._send_anew(outgoing)
        else:
            self._ended(error)

    # Inside

    def _send_anew(self, outgoing: Outgoing) -> None:
        self._reused = False
        self._opening = self._pool.connect(outgoing.origin, self._opened)

    def _opened(self, found: Connection | BackendError) -> None:
        self._opening = None
        if isinstance(found, BackendError):
            self._ended(found)
        elif self._outgoing is not None:
            self._send_over(found, self._outgoing)

    def _send_over(self, connection: Connection, outgoing: Outgoing) -> None:
        self._connection = connection
        connection.send(outgoing.content, self, most=self._most, sink=self._sink)


def json_object(reply: Reply) -> dict[str, object]:
    """The JSON object of a successful answer."""
    try:
        document = orjson.loads(reply.body)
    except orjson.JSONDecodeError as error:
        kind = reply.headers.get("content-type", "no type")
        raise bad_payload(f"the answer is not JSON ({kind}, {len(reply.body)} bytes): {error}") from error
    if not isinstance(document, dict):
        raise bad_payload("the answer is JSON, but not an object")
    return document
