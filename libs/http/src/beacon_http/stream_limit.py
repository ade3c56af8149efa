"""How many event streams one API key may have open in this process."""

from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TypeVar

from beacon_http.problems import HttpProblemError

T = TypeVar("T")


class StreamLimit:
    def __init__(self, max_streams: int) -> None:
        self.max_streams = max_streams
        self._open: Counter[bytes] = Counter()

    def check(self, key_hash: bytes) -> None:
        """Raises 429 when the key has as many streams as it may have."""
        if self._open[key_hash] >= self.max_streams:
            detail = f"this key has {self.max_streams} event streams open; close some of them first"
            raise HttpProblemError(429, "too_many_streams", detail, retry_after_s=5)

    async def counted(self, key_hash: bytes, events: AsyncGenerator[T]) -> AsyncGenerator[T]:
        """The same events. The stream counts from the first event that is requested until it is closed."""
        self._open[key_hash] += 1
        try:
            async with aclosing(events):
                async for event in events:
                    yield event
        finally:
            self._open[key_hash] -= 1
            if not self._open[key_hash]:
                del self._open[key_hash]
