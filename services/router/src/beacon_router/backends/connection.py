"""One HTTP/1.1 connection to a backend: one request at a time, answered without a task (docs/decisions)."""

import asyncio
import os
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NamedTuple, Protocol, cast

import httptools

from beacon_router.backends.errors import bad_payload, connection_lost
from beacon_router.backends.types import BackendError, Sink

_MOST_HEAD = 65_536


class Reply(NamedTuple):
    """`headers` have lower-case names; of one that is repeated the last counts."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Listener(Protocol):
    """Hears one of the two, once for each request."""

    def replied(self, reply: Reply) -> None: ...

    def lost(self, error: BackendError, *, silent: bool) -> None:
        """No whole answer will come; `silent`: not one byte of it came."""
        ...


class Connection(asyncio.Protocol):
    """`idle` is told when it is free for the next request, `gone` when it can take no more."""

    # Of the answer that is coming in.
    _status: int
    _headers: dict[str, str]
    _head_bytes: int
    _pieces: list[bytes]
    _body_bytes: int
    _complete: bool
    _surplus: bool
    _until_end: bool
    _streams: bool
    _keep: bool

    def __init__(self, *, idle: Callable[["Connection"], None], gone: Callable[["Connection"], None]) -> None:
        self.idle_since = 0.0
        self._idle = idle
        self._gone = gone
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._listener: Listener | None = None
        self._sink: Sink | None = None
        self._most = 0
        self._silent = True
        self._start_answer()

    @property
    def usable(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def send(self, request: bytes, listener: Listener, *, most: int, sink: Sink | None = None) -> None:
        """Answers of more than `most` bytes are cut off, unless they succeed and stream into the sink."""
        if self._transport is None or self._listener is not None:
            raise RuntimeError("the connection is not free")
        self._listener, self._most, self._sink = listener, most, sink
        self._silent = True
        self._start_answer()
        self._transport.write(request)

    def abort(self) -> None:
        """Close it at once and tell the listener nothing. Idempotent."""
        asked = self._listener is not None
        self._listener = self._sink = None
        if self._transport is not None:
            if asked:
                _say_goodbye(self._transport)
            self._transport.abort()

    def pause(self) -> None:
        if self.usable and self._transport is not None:
            self._transport.pause_reading()

    def resume(self) -> None:
        if self.usable and self._transport is not None:
            self._transport.resume_reading()

    # What the transport says

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._listener is None:
            self.abort()  # nobody asked for anything
            return
        self._silent = False
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(bad_payload(f"the answer is not HTTP: {error}"))
            return
        self._take_stock()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._gone(self)
        if self._listener is None:
            return
        if self._until_end and error is None:
            self._complete = True
            self._take_stock()
        else:
            cause = error or ConnectionError("the backend closed the connection")
            listener, self._listener = self._listener, None
            listener.lost(connection_lost(cause), silent=self._silent)

    # What the parser says. Listeners are not called from here: the parser would wrap what they raise.

    def on_message_begin(self) -> None:
        if self._complete:
            self._surplus = True

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head_bytes += len(name) + len(value)
        if self._head_bytes <= _MOST_HEAD:
            self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        if self._surplus:
            return
        self._status = self._parser.get_status_code()
        counted = "content-length" in self._headers or "transfer-encoding" in self._headers
        self._until_end = not counted and self._status >= 200 and self._status not in (204, 304)
        if self._sink is not None and self._status == 200:
            self._streams = True
            self._sink.opened(self)

    def on_body(self, body: bytes) -> None:
        if not self._surplus:
            self._pieces.append(body)
            self._body_bytes += len(body)

    def on_message_complete(self) -> None:
        if self._surplus:
            return
        if self._status < 200:
            self._start_answer()  # an interim answer: the real one follows
            return
        self._complete = True
        self._keep = self._parser.should_keep_alive() and not self._until_end

    # Inside

    def _start_answer(self) -> None:
        self._status = 0
        self._headers = {}
        self._head_bytes = 0
        self._pieces = []
        self._body_bytes = 0
        self._complete = False
        self._surplus = False
        self._until_end = False
        self._streams = False
        self._keep = False

    def _take_stock(self) -> None:
        """Pass on what there is after each piece of data."""
        if self._streams and self._pieces and self._sink is not None:
            self._sink.feed(b"".join(self._pieces))
            self._pieces.clear()
        elif self._body_bytes > self._most and not self._streams:
            self._fail(bad_payload(f"the answer is longer than {self._most} bytes"))
        elif self._head_bytes > _MOST_HEAD:
            self._fail(bad_payload(f"the head of the answer is longer than {_MOST_HEAD} bytes"))
        if self._complete:
            self._deliver()

    def _deliver(self) -> None:
        listener, self._listener, self._sink = self._listener, None, None
        if listener is None:
            return
        reply = Reply(self._status, self._headers, b"".join(self._pieces))
        if self._keep and not self._surplus and self.usable:
            if self._streams:
                self.resume()  # its reader may have held it back
            self._idle(self)  # before the listener hears: it may need a connection at once
        elif self._transport is not None:
            self._transport.close()
        listener.replied(reply)

    def _fail(self, error: BackendError) -> None:
        listener = self._listener
        self.abort()
        if listener is not None:
            listener.lost(error, silent=False)


def _say_goodbye(transport: asyncio.Transport) -> None:
    """The transport closes in a later turn of the event loop; the next request to the backend may come first.

    A backend that hears of them in this order has the slot free when the next one asks for it.
    """
    with suppress(OSError), socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno())) as same:
        same.shutdown(socket.SHUT_RDWR)
