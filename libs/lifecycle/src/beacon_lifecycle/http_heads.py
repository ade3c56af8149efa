"""HTTP requests as they are read: heads are bounded, so are those that wait for their turn, and an offer of
another protocol costs no body.
"""

from enum import Enum
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_HEAD = 65_536
MOST_AHEAD = 64  # requests that wait for the answers before theirs; what one read brings can hold 10,000
_TOO_LONG = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-type: text/plain; charset=utf-8\r\ncontent-length: 16\r\nconnection: close\r\n\r\n"
    b"head is too long"
)


class Reading(Enum):
    """What of a request the connection is in the middle of."""

    NOTHING = "nothing"
    HEAD = "head"
    BODY = "body"


NOTHING, HEAD, BODY = Reading


class _TooFarAheadError(Exception):
    """Stops the parser."""


class BoundedHeads(HttpToolsProtocol):
    """What has come in without the end of a head, or after a body without its end, is counted; beyond the
    bound the connection ends.

    Who answers in another way than the server takes `begin_request`, `take_body` and `end_request` over.
    """

    cycle: Any  # the server's, or one in its place; None before the first request
    reading = HEAD  # of a new connection one is expected
    _head_bytes = 0
    _hears = True

    def data_received(self, data: bytes) -> None:
        if not self._hears:
            return
        self._head_bytes += len(data)
        while data:
            data = self._parse(data)
        if self._head_bytes > MOST_HEAD and not self.transport.is_closing():
            self._refuse_head()

    def on_message_begin(self) -> None:
        self.reading = HEAD
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.reading is HEAD:  # nobody here reads what comes after a body
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT":
            return  # the parser stops after this head
        if len(self.pipeline) == MOST_AHEAD:
            raise _TooFarAheadError
        self.reading = BODY
        self._head_bytes = 0
        self.begin_request()

    def on_body(self, body: bytes) -> None:
        self._head_bytes = 0
        self.take_body(body)

    def on_message_complete(self) -> None:
        if self.reading is BODY:
            self.reading = NOTHING
            self._head_bytes = 0
            self.end_request()

    def begin_request(self) -> None:
        super().on_headers_complete()

    def take_body(self, body: bytes) -> None:
        super().on_body(body)

    def end_request(self) -> None:
        super().on_message_complete()

    def _parse(self, data: bytes) -> bytes:
        """What is to be parsed after it: nothing, unless the parser took the request for the last one."""
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as stop:
            if self.reading is HEAD:
                return self._upgrade(data[stop.args[0] :])
        except httptools.HttpParserError as error:
            if isinstance(error.__context__, _TooFarAheadError):
                self._hear_no_more()
            else:
                self.logger.warning("Invalid HTTP request received.")
                self.send_400_response("Invalid HTTP request received.")
        return b""

    def _hear_no_more(self) -> None:
        """Those that wait are answered; the last answer says that the connection ends with it."""
        self._hears = False
        last, _ = self.pipeline[0]
        last.keep_alive = False

    def _upgrade(self, rest: bytes) -> bytes:
        """A WebSocket, or the same request without an offer that is declined, such as Java's of HTTP/2.

        The parser would take the body of such a request for the other protocol.
        """
        method = self.parser.get_method()
        if self._should_upgrade():
            self.scope["method"] = method.decode()
            self.handle_websocket_upgrade()
            return b""
        lines = [b"%b %b HTTP/%b" % (method, self.url, self.parser.get_http_version().encode())]
        lines += [b"%b: %b" % header for header in self.headers if header[0] != b"upgrade"]
        self.parser = httptools.HttpRequestParser(self)  # the other one has ended if the client wants a close
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as the server has it
        return b"\r\n".join([*lines, b"", rest])

    def _refuse_head(self) -> None:
        if self.reading is not BODY and (self.cycle is None or self.cycle.response_complete):
            self.transport.write(_TOO_LONG)
        self.transport.close()
