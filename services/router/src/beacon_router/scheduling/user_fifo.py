"""Waiting requests of one user in one queue, in the order of their numbers."""

from bisect import bisect_left
from collections.abc import Iterator
from operator import attrgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from beacon_router.scheduling.state.request_queue import QueuedRequest

_seq = attrgetter("seq")
_SLACK = 32


class UserFifo:
    """A list of which the first `_start` entries are gone: most users have one request, and a deque of one
    takes 0.6 KB."""

    __slots__ = ("_items", "_start")

    def __init__(self, items: "list[QueuedRequest]") -> None:
        self._items = items
        self._start = 0

    def __len__(self) -> int:
        return len(self._items) - self._start

    def __iter__(self) -> "Iterator[QueuedRequest]":
        for index in range(self._start, len(self._items)):
            yield self._items[index]

    @property
    def first(self) -> "QueuedRequest":
        return self._items[self._start]

    def append(self, queued: "QueuedRequest") -> None:
        self._items.append(queued)

    def remove(self, queued: "QueuedRequest") -> bool:
        """Wherever it is; True: it was the first."""
        items = self._items
        if items[self._start] is not queued:
            del items[self._index(queued.seq)]
            return False
        self._start += 1
        if self._start > _SLACK and 2 * self._start > len(items):
            del items[: self._start]
            self._start = 0
        return True

    def before(self, seq: int) -> int:
        """How many have a lower number."""
        return self._index(seq) - self._start

    def copy(self, limit: int) -> "UserFifo":
        """An independent copy of the first ones."""
        return UserFifo(self._items[self._start : self._start + limit])

    def _index(self, seq: int) -> int:
        return bisect_left(self._items, seq, lo=self._start, key=_seq)
