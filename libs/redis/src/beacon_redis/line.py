"""One connection to one Redis: commands are written as they come, and answered in that order."""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, cast

import hiredis
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    ConnectionError,  # noqa: A004 - what all callers of Redis know it by
    NoScriptError,
    ReadOnlyError,
    ResponseError,
    TimeoutError,  # noqa: A004
)

Word = str | bytes | int | float

_ERRORS: Mapping[str, type[ResponseError]] = {
    "NOSCRIPT": NoScriptError,
    "READONLY": ReadOnlyError,
}
_UNWELL: Mapping[str, type[ConnectionError]] = {
    "LOADING": BusyLoadingError,
    "NOAUTH": AuthenticationError,
    "WRONGPASS": AuthenticationError,
}


class Line(asyncio.Protocol):
    """Broken once, broken for good: whoever waits is told, and the next caller opens another."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._reader = hiredis.Reader(replyError=_error, encoding="utf-8")
        self._waiting: deque[asyncio.Future[Any]] = deque()
        self._transport: asyncio.Transport | None = None

    def itself(self) -> "Line":
        """For those who make connections out of factories of protocols."""
        return self

    @property
    def is_open(self) -> bool:
        return self._transport is not None

    async def call(self, *words: Word) -> Any:
        """The answer; errors are those of the `redis` package."""
        return await self.send(*words)

    def send(self, *words: Word) -> "asyncio.Future[Any]":
        """The same, written when this returns."""
        if self._transport is None:
            raise ConnectionError("the connection to Redis was closed")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        late = loop.call_later(self._timeout_s, self._give_up)
        answer.add_done_callback(lambda _: late.cancel())
        self._waiting.append(answer)
        self._transport.write(_packed(words))
        return answer

    def close(self) -> None:
        self._break(ConnectionError("the connection to Redis was closed"))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        try:
            self._read()
        except hiredis.ProtocolError as error:
            self._break(ConnectionError(f"this is no Redis, or not well: {error}"))

    def connection_lost(self, error: Exception | None) -> None:
        self._break(ConnectionError(f"Redis closed the connection: {error or 'it ended'}"))

    def _read(self) -> None:
        while self._waiting and (answer := self._reader.gets()) is not False:
            self._tell(self._waiting.popleft(), answer)

    def _tell(self, waiting: "asyncio.Future[Any]", answer: Any) -> None:
        if isinstance(answer, (ConnectionError, ReadOnlyError)):
            self._break(answer)  # the next connection may find a server that is well, or the new primary
        if waiting.done():  # its caller has gone
            return
        if isinstance(answer, Exception):
            waiting.set_exception(answer)
        else:
            waiting.set_result(answer)

    def _give_up(self) -> None:
        self._break(TimeoutError(f"Redis has not answered within {self._timeout_s:g} s"))

    def _break(self, error: Exception) -> None:
        if self._transport is not None:
            self._transport.abort()
            self._transport = None
        waiting, self._waiting = self._waiting, deque()
        for one in waiting:
            if not one.done():
                one.set_exception(error)


# By its own type it takes one word only.
_packed = cast("Callable[[tuple[Word, ...]], bytes]", hiredis.pack_command)


def _error(text: str) -> Exception:
    code = text.partition(" ")[0]
    if code in _UNWELL:
        return _UNWELL[code](text)
    return _ERRORS.get(code, ResponseError)(text)
