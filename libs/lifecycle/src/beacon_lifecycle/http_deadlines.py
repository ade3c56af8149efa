"""Clients that keep a connection waiting, for a head, a body or the next request: not for ever."""

from asyncio import BaseTransport, TimerHandle
from dataclasses import dataclass
from math import inf

from beacon_lifecycle.http_heads import BODY, HEAD, NOTHING, BoundedHeads


@dataclass(frozen=True, slots=True)
class ClientTimeouts:
    """What a client may take: for a whole head, for a whole body, to read anything of its answer."""

    head_s: float = 10.0
    body_s: float = 30.0
    reader_s: float = 30.0


class ClientDeadlines(BoundedHeads):
    """A client that waits for its answer is never late, however long that takes.

    The server's own protocol sets a timer with each answer and takes it back with the next request. Here a
    connection has one, which is left alone when its client is due later than before: it looks, and waits on.
    """

    timeouts = ClientTimeouts()
    _due = 0.0
    _awaited = NOTHING
    _timer: TimerHandle | None = None
    _look_at = inf

    def connection_made(self, transport: BaseTransport) -> None:
        super().connection_made(transport)  # type: ignore[arg-type]
        self._await_client()

    def data_received(self, data: bytes) -> None:
        request = self.scope
        super().data_received(data)
        if self.reading is not self._awaited or (self.reading is BODY and self.scope is not request):
            self._await_client()

    def on_response_complete(self) -> None:
        if self.pipeline or self.transport.is_closing():
            super().on_response_complete()
        else:
            self.server_state.total_requests += 1
            self.flow.resume_reading()
        self._await_client()

    def handle_websocket_upgrade(self) -> None:
        self._look_no_more()
        super().handle_websocket_upgrade()

    def connection_lost(self, exc: Exception | None) -> None:
        self._look_no_more()
        super().connection_lost(exc)

    def idle_since(self) -> float:
        """When its last answer was over; a moment that never comes while it is in the middle of something."""
        if self.reading is not NOTHING or self._is_owed_an_answer():
            return inf
        if self.transport.get_write_buffer_size():  # of an answer that it has not read
            return inf
        return self._due - self.timeout_keep_alive

    def _await_client(self) -> None:
        """What is to come next has its time from now on; more bytes of the same give it no more."""
        self._awaited = self.reading
        self._due = self.loop.time() + self._patience_s()
        if self._due < self._look_at:
            self._look_when_due()

    def _patience_s(self) -> float:
        if self.reading is NOTHING:
            return self.timeout_keep_alive
        return self.timeouts.head_s if self.reading is HEAD else self.timeouts.body_s

    def _look_when_due(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._look_at = self._due
        self._timer = self.loop.call_at(self._due, self._look)

    def _look_no_more(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._look_at = -inf

    def _look(self) -> None:
        self._timer, self._look_at = None, inf
        if self._is_owed_an_answer() or self.transport.is_closing():
            return  # the answer sets the next look
        if self.loop.time() < self._due:
            self._look_when_due()
        elif self.reading is not BODY or self.cycle.response_complete:
            self.timeout_keep_alive_handler()
        else:
            self._await_client()  # the application bounds the time of bodies

    def _is_owed_an_answer(self) -> bool:
        if self.cycle is None or self.cycle.response_complete:
            return False
        return self.reading is not BODY or bool(self.pipeline) or self.cycle.response_started
