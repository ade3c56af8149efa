"""The memory of interactive requests in one process: bounded in sum, and shared between users."""

from collections import Counter

from beacon_contracts.ids import UserId


class NoRequestMemoryError(Exception):
    """There is no room for the bytes of a request now."""


class RequestMemory:
    """A user may hold at most as many bytes as are left free, so that there is always room for others."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.held_bytes = 0
        self._held_by_user: Counter[UserId] = Counter()

    def reserve(self, user: UserId, size: int) -> "ReservedMemory":
        """Raises NoRequestMemoryError."""
        reserved = ReservedMemory(self, user)
        reserved.resize(size)
        return reserved

    def add(self, user: UserId, size: int) -> None:
        """Raises NoRequestMemoryError; a negative size always fits."""
        if size > 0 and self._held_by_user[user] + size > self.max_bytes - self.held_bytes - size:
            raise NoRequestMemoryError(f"{self.held_bytes} of {self.max_bytes} bytes are in use")
        self.held_bytes += size
        self._held_by_user[user] += size
        if not self._held_by_user[user]:
            del self._held_by_user[user]


class ReservedMemory:
    """The bytes of one request."""

    def __init__(self, memory: RequestMemory, user: UserId) -> None:
        self._memory = memory
        self._user = user
        self._size = 0

    def resize(self, size: int) -> None:
        """Raises NoRequestMemoryError, and keeps the former size then."""
        self._memory.add(self._user, size - self._size)
        self._size = size

    def release(self) -> None:
        """Idempotent."""
        self.resize(0)
