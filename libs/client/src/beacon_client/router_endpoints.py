"""Which router to call: the least busy one that is not resting after a failure. Pure; time is an argument."""

from collections.abc import Collection, Iterable, Sequence

import httpx

REST_FIRST_S = 0.25
REST_MAX_S = 10.0
FAILURES_OF_THE_AWAY = 3


class Endpoint:
    """One router's address, how much is in flight to it, and until when it rests."""

    __slots__ = ("failures", "host", "in_flight", "inference_url", "regions", "rests_until", "url")

    def __init__(self, url: str, regions: frozenset[str] | None = None) -> None:
        self.url = url
        self.inference_url = httpx.URL(url + "/inference")
        self.host = self.inference_url.netloc
        self.regions = regions
        self.in_flight = 0
        self.failures = 0
        self.rests_until = 0.0

    def serves(self, region: str | None) -> bool:
        return self.regions is None or region is None or region.casefold() in self.regions

    def failed(self, now: float) -> float:
        """Note a failure; it rests longer after each one in a row. Returns the seconds."""
        self.failures += 1
        rest_s: float = min(REST_FIRST_S * 2.0 ** min(self.failures - 1, 16), REST_MAX_S)
        self.rests_until = now + rest_s
        return rest_s

    def answered(self) -> None:
        self.failures = 0
        self.rests_until = 0.0

    def is_away(self, now: float) -> bool:
        """It rests, and not for a single mishap."""
        return self.failures >= FAILURES_OF_THE_AWAY and self.rests_until > now

    def __repr__(self) -> str:
        state = f"resting after {self.failures} failures" if self.failures else "healthy"
        return f"<router {self.url}: {self.in_flight} in flight, {state}>"


class Endpoints:
    """The routers that a client knows. An address `EU+ASIA=http://…` serves those regions only."""

    def __init__(self, addresses: Iterable[str]) -> None:
        self.all: Sequence[Endpoint] = [read_address(address) for address in addresses if address.strip()]
        if not self.all:
            raise ValueError("no router address: set BEACON_ROUTER_URLS, for example http://127.0.0.1:8100")
        self._turn = 0

    def serving(self, region: str | None) -> list[Endpoint]:
        return [endpoint for endpoint in self.all if endpoint.serves(region)]

    def choose(self, region: str | None, now: float, without: Collection[Endpoint] = ()) -> Endpoint | None:
        """The least busy healthy one; when all rest, the one that rests the shortest; equals take turns."""
        self._turn += 1
        candidates = [endpoint for endpoint in self.serving(region) if endpoint not in without]
        if len(candidates) < 2:
            return candidates[0] if candidates else None
        shift = self._turn % len(candidates)
        return min(
            candidates[shift:] + candidates[:shift],
            key=lambda endpoint: (max(0.0, endpoint.rests_until - now), endpoint.in_flight),
        )


def read_address(text: str) -> Endpoint:
    """`http://host:port`, or `REGION+REGION=http://host:port`."""
    head, _, tail = text.strip().partition("=http")
    if tail and "://" not in head:
        regions = frozenset(region.strip().casefold() for region in head.split("+"))
        return Endpoint(_checked("http" + tail), regions)
    return Endpoint(_checked(text.strip()))


def _checked(url: str) -> str:
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise ValueError(f"{url!r} is not an address: {error}") from error
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise ValueError(f"{url!r} is not a router address of the form http://host:port")
    return url.rstrip("/")
