"""Chooses the router to call: the least busy one that is not backing off. Pure; time is an argument."""

from collections.abc import Collection, Iterable, Sequence
from urllib.parse import urlsplit

BACKOFF_FIRST_S = 0.25
BACKOFF_MAX_S = 10.0
FAILURES_UNTIL_UNAVAILABLE = 3


class RouterEndpoint:
    """One router: its address, its requests in flight, and the end of its backoff after failures."""

    __slots__ = ("backoff_until", "failed_at", "failures", "in_flight", "regions", "url")

    def __init__(self, url: str, regions: frozenset[str] | None = None) -> None:
        self.url = url
        self.regions = regions
        self.in_flight = 0
        self.failures = 0
        self.failed_at = 0.0
        self.backoff_until = 0.0

    def serves(self, region: str | None) -> bool:
        return self.regions is None or region is None or region.casefold() in self.regions

    def record_failure(self, now: float, sent_at: float | None = None) -> None:
        """Back off, longer after each failure in a row.

        Requests that were sent before the last failure have failed with it, and do not count again.
        """
        if self.failures and sent_at is not None and sent_at < self.failed_at:
            return
        self.failures += 1
        self.failed_at = now
        backoff_s: float = min(BACKOFF_FIRST_S * 2.0 ** min(self.failures - 1, 16), BACKOFF_MAX_S)
        self.backoff_until = now + backoff_s

    def record_success(self) -> None:
        self.failures = 0
        self.backoff_until = 0.0

    def is_unavailable(self, now: float) -> bool:
        """It backs off after several failures in a row; a single failure does not count."""
        return self.failures >= FAILURES_UNTIL_UNAVAILABLE and self.backoff_until > now

    def __repr__(self) -> str:
        state = f"backing off after {self.failures} failures" if self.failures else "healthy"
        return f"<router {self.url}: {self.in_flight} in flight, {state}>"


class RouterEndpoints:
    """The configured routers. An address `EU+ASIA=http://…` serves those regions only."""

    def __init__(self, addresses: Iterable[str]) -> None:
        self.all: Sequence[RouterEndpoint] = [
            parse_address(address) for address in addresses if address.strip()
        ]
        if not self.all:
            raise ValueError("no router address: set BEACON_ROUTER_URLS, for example http://127.0.0.1:8100")
        self._next = 0

    def serving(self, region: str | None) -> list[RouterEndpoint]:
        return [endpoint for endpoint in self.all if endpoint.serves(region)]

    def choose(
        self, region: str | None, now: float, without: Collection[RouterEndpoint] = ()
    ) -> RouterEndpoint | None:
        """The least busy healthy one, else the one whose backoff ends first; equal ones round-robin."""
        self._next += 1
        candidates = [one for one in self.all if one not in without and one.serves(region)]
        if len(candidates) < 2:
            return candidates[0] if candidates else None
        shift = self._next % len(candidates)
        return min(
            candidates[shift:] + candidates[:shift],
            key=lambda endpoint: (max(0.0, endpoint.backoff_until - now), endpoint.in_flight),
        )


def parse_address(text: str) -> RouterEndpoint:
    """`http://host:port`, or `REGION+REGION=http://host:port`."""
    head, _, tail = text.strip().partition("=http")
    if tail and "://" not in head:
        regions = frozenset(region.strip().casefold() for region in head.split("+"))
        return RouterEndpoint(_checked("http" + tail), regions)
    return RouterEndpoint(_checked(text.strip()))


def _checked(url: str) -> str:
    try:
        parsed = urlsplit(url)
        usable = parsed.scheme in ("http", "https") and bool(parsed.hostname) and parsed.port != 0
    except ValueError as error:
        raise ValueError(f"{url!r} is not an address: {error}") from error
    if not usable:
        raise ValueError(f"{url!r} is not a router address of the form http://host:port")
    return url.rstrip("/")
