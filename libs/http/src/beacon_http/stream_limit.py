"""How many event streams one API key may have open in this process."""

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager

from beacon_http.problems import HttpProblemError


class StreamLimit:
    def __init__(self, max_streams: int) -> None:
        self.max_streams = max_streams
        self._open: Counter[bytes] = Counter()

    @contextmanager
    def stream(self, key_hash: bytes) -> Generator[None]:
        """One stream of the key. Raises 429 when the key has as many streams as it may have."""
        if self._open[key_hash] >= self.max_streams:
            detail = f"this key has {self.max_streams} event streams open, the limit; close one and retry"
            raise HttpProblemError(429, "too_many_streams", detail, retry_after_s=5)
        self._open[key_hash] += 1
        try:
            yield
        finally:
            self._open[key_hash] -= 1
            if not self._open[key_hash]:
                del self._open[key_hash]
