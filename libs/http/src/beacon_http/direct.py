"""Requests that their connection answers itself, without the framework: what the services' lanes share."""

from beacon_http.replies import Reply
from beacon_lifecycle.http_deadlines import ClientDeadlines

CLOSE = (b"connection", b"close")


def is_plain_post(connection: ClientDeadlines, url: bytes) -> bool:
    """Nothing out of the ordinary: no request that waits before it, no `Expect`, and its client reads."""
    parser, cycle = connection.parser, connection.cycle
    if connection.url != url or parser.get_method() != b"POST" or parser.get_http_version() != "1.1":
        return False
    busy = cycle is not None and not cycle.response_complete
    return not (busy or connection.expect_100_continue or connection.flow.write_paused)


class _Nobody:
    """Where the framework's cycle has an event, for a task that waits for the body."""

    def set(self) -> None: ...


class DirectCall:
    """One request and its answer. The attributes without an underscore are those uvicorn reads of a cycle."""

    message_event = _Nobody()
    response_started = False  # an answer is one write
    response_complete = False
    waiting_for_100_continue = False
    disconnected = False
    more_body = False

    def __init__(self, connection: ClientDeadlines) -> None:
        self.keep_alive = connection.parser.should_keep_alive()
        self._connection = connection

    def send(self, reply: Reply, request_id: str) -> None:
        self.response_complete = True
        if not self.disconnected:
            self._write(reply, (b"x-request-id", request_id.encode()))
        self._connection.on_response_complete()

    def _write(self, reply: Reply, *more: tuple[bytes, bytes]) -> None:
        transport, closes = self._connection.transport, CLOSE in reply.headers
        if not self.keep_alive and not closes:
            more = (*more, CLOSE)
        transport.write(reply.encoded(*more))
        if closes or not self.keep_alive:
            transport.close()
