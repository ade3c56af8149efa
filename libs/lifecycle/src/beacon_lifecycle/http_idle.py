"""Connections on which nobody asks any more: closed after a while, without a timer for each answer."""

from asyncio import TimerHandle

from beacon_lifecycle.http_heads import HEAD, BoundedHeads


class IdleConnections(BoundedHeads):
    """The server's own protocol sets a timer with each answer and takes it back with the next request.

    Here a connection has one, which looks when the last answer was, and waits on if that was not long ago.
    """

    _answered_at = 0.0
    _idle_look: TimerHandle | None = None

    def on_response_complete(self) -> None:
        if self.pipeline or self.transport.is_closing():
            super().on_response_complete()
            return
        self.server_state.total_requests += 1
        self.flow.resume_reading()
        self._answered_at = self.loop.time()
        if self._idle_look is None:
            self._look_if_idle_in(self.timeout_keep_alive)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._idle_look is not None:
            self._idle_look.cancel()
            self._idle_look = None
        super().connection_lost(exc)

    def _look_if_idle_in(self, seconds: float) -> None:
        self._idle_look = self.loop.call_later(seconds, self._look_if_idle)

    def _look_if_idle(self) -> None:
        self._idle_look = None
        # The rest of a body that was answered is no question.
        if self.reading is HEAD or not self.cycle.response_complete:
            return  # something is being asked: the answer to it sets the next look
        left_s = self._answered_at + self.timeout_keep_alive - self.loop.time()
        if left_s > 0:
            self._look_if_idle_in(left_s)
        else:
            self.timeout_keep_alive_handler()
