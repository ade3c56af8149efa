"""Answers that nobody reads: their clients would keep a connection each, and what was to be sent over it."""

from asyncio import TimerHandle
from math import inf

from beacon_lifecycle.http_deadlines import ClientDeadlines


class WatchedReaders(ClientDeadlines):
    """Ends a connection that waits for its client and passes nothing on from one look to the next."""

    _reader_timer: TimerHandle | None = None
    _unread: float = inf

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = inf
        self._watch()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_watching()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_watching()
        super().connection_lost(exc)

    def _watch(self) -> None:
        self._stop_watching()
        self._reader_timer = self.loop.call_later(self.timeouts.reader_s, self._look_at_reader)

    def _stop_watching(self) -> None:
        if self._reader_timer is not None:
            self._reader_timer.cancel()
            self._reader_timer = None

    def _look_at_reader(self) -> None:
        unread = self.transport.get_write_buffer_size()
        if unread >= self._unread:
            self.transport.abort()
        else:
            self._unread = unread
            self._watch()
