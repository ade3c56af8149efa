"""Answers that nobody reads: their clients would keep a connection each, and what was to be sent over it."""

import fcntl
import socket
import struct
import termios
from asyncio import TimerHandle, Transport
from math import inf

from beacon_lifecycle.http_deadlines import ClientDeadlines


def cut(transport: Transport) -> None:
    """End the connection and drop what waits to be sent, in the kernel too."""
    connection = transport.get_extra_info("socket")
    if connection is not None and connection.fileno() >= 0:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


def unread_of(transport: Transport) -> int:
    """What waits to be sent, in the kernel too: that asks for more only when it has sent megabytes."""
    unread = transport.get_write_buffer_size()
    connection = transport.get_extra_info("socket")
    if connection is None or connection.fileno() < 0:
        return unread
    try:
        (unsent,) = struct.unpack("i", fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, bytes(4)))
    except OSError:  # other kernels than Linux do not say
        return unread
    return unread + int(unsent)


class WatchedReaders(ClientDeadlines):
    """Cuts a connection that waits for its client and passes nothing on from one look to the next."""

    _reader_timer: TimerHandle | None = None
    _unread: float = inf

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_anew()

    def resume_writing(self) -> None:
        super().resume_writing()
        if not self.transport.is_closing():  # else the rest is waited for, and nobody else looks
            self._stop_watching()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_watching()
        super().connection_lost(exc)

    def _look(self) -> None:
        super()._look()
        if self.transport.is_closing() and self._reader_timer is None:
            self._watch_anew()  # too little waits for it to be paused, but closing waits for that too

    def _watch_anew(self) -> None:
        self._unread = inf
        self._watch()

    def _watch(self) -> None:
        self._stop_watching()
        self._reader_timer = self.loop.call_later(self.timeouts.reader_s, self._look_at_reader)

    def _stop_watching(self) -> None:
        if self._reader_timer is not None:
            self._reader_timer.cancel()
            self._reader_timer = None

    def _look_at_reader(self) -> None:
        unread = unread_of(self.transport)
        if unread >= self._unread:
            cut(self.transport)
        else:
            self._unread = unread
            self._watch()
