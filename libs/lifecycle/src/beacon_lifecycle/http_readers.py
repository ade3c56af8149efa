"""Answers that nobody reads: their clients would keep a connection each, and what was to be sent over it."""

from asyncio import TimerHandle
from math import inf

from beacon_lifecycle.http_idle import IdleConnections


class WatchedReaders(IdleConnections):
    """Ends a connection that waits for its client and passes nothing on from one look to the next."""

    reader_timeout_s: float
    _look: TimerHandle | None = None
    _unread: float = inf

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = inf
        self._look_later()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._look_no_more()

    def connection_lost(self, exc: Exception | None) -> None:
        self._look_no_more()
        super().connection_lost(exc)

    def _look_later(self) -> None:
        self._look_no_more()
        self._look = self.loop.call_later(self.reader_timeout_s, self._look_again)

    def _look_no_more(self) -> None:
        if self._look is not None:
            self._look.cancel()
            self._look = None

    def _look_again(self) -> None:
        unread = self.transport.get_write_buffer_size()
        if unread >= self._unread:
            self.transport.abort()
        else:
            self._unread = unread
            self._look_later()
