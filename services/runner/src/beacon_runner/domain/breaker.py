"""Keeps a part that does not answer from being asked over and over. Pure; time is an argument."""


class Breaker:
    """Opens after `failures` in a row; `open_s` later it lets one try through, which decides."""

    def __init__(self, failures: int, open_s: float) -> None:
        self._most = failures
        self._open_s = open_s
        self._failures = 0
        self._opens_until: float | None = None
        self._probing = False

    @property
    def closed(self) -> bool:
        return self._opens_until is None

    def allows(self, now: float) -> bool:
        """Whether to ask now; whoever is allowed must tell how it went."""
        if self._opens_until is None:
            return True
        if now < self._opens_until or self._probing:
            return False
        self._probing = True
        return True

    def succeeded(self) -> None:
        self._failures, self._opens_until, self._probing = 0, None, False

    def failed(self, now: float) -> None:
        self._failures += 1
        if self._probing or self._failures >= self._most:
            self._opens_until, self._probing = now + self._open_s, False

    def __repr__(self) -> str:
        if self._opens_until is None:
            return f"<breaker closed after {self._failures} failures>"
        return f"<breaker {'half open' if self._probing else 'open'} until {self._opens_until:g}>"
