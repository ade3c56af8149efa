"""HTTP requests whose heads are bounded: the server's own protocol takes in whatever a stranger sends."""

from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_HEAD = 65_536
_TOO_LONG = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-type: text/plain; charset=utf-8\r\ncontent-length: 16\r\nconnection: close\r\n\r\n"
    b"head is too long"
)


class BoundedHeads(HttpToolsProtocol):
    """What has come in without the end of a head is counted; beyond the bound the connection ends."""

    cycle: Any  # the server's, or one in its place; None before the first request
    _in_head = True
    _head_bytes = 0

    def data_received(self, data: bytes) -> None:
        self._head_bytes += len(data)
        super().data_received(data)
        if self._in_head and self._head_bytes > MOST_HEAD and not self.transport.is_closing():
            self._refuse_head()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:  # nobody here reads what comes after a body
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self.head_ended()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self.message_ended()
        super().on_message_complete()

    def head_ended(self) -> None:
        """Whoever takes `on_headers_complete` over says it here."""
        self._in_head = False

    def message_ended(self) -> None:
        """The same for `on_message_complete`."""
        self._in_head = True
        self._head_bytes = 0

    def _refuse_head(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self.transport.write(_TOO_LONG)
        self.transport.close()
