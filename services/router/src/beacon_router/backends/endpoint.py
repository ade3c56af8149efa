"""An address of a backend, and the parts of a request that are the same each time."""

from typing import NamedTuple
from urllib.parse import quote

from yarl import URL

_SAME_IN_ALL = "accept: application/json, text/event-stream\r\naccept-encoding: identity\r\n"
_JSON = "content-type: application/json\r\n"


class Origin(NamedTuple):
    """Whom to connect to."""

    host: str
    port: int
    secure: bool


class Outgoing(NamedTuple):
    """A request as bytes. `repeatable`: a second copy of it does no harm."""

    origin: Origin
    content: bytes
    repeatable: bool = False


class Endpoint:
    """One address, with the headers that every request to it has."""

    __slots__ = ("_get", "_headers", "_post", "origin", "url")

    def __init__(self, url: URL, headers: dict[str, str]) -> None:
        self.url = url
        self._headers = headers
        if url.scheme not in ("http", "https") or url.host is None or url.port is None:
            raise ValueError(f"{url} is not an address to call")
        self.origin = Origin(url.host, url.port, url.scheme == "https")
        lines = "".join(_line(name, value) for name, value in headers.items())
        target, host = url.raw_path_qs, url.host_port_subcomponent
        common = f"{target} HTTP/1.1\r\nhost: {host}\r\n{_SAME_IN_ALL}{lines}"
        self._post = f"POST {common}{_JSON}content-length: ".encode()
        self._get = f"GET {common}\r\n".encode()

    def post(self, body: bytes, more_headers: bytes = b"") -> Outgoing:
        return Outgoing(self.origin, b"%b%d\r\n%b\r\n%b" % (self._post, len(body), more_headers, body))

    def get(self) -> Outgoing:
        return Outgoing(self.origin, self._get, repeatable=True)

    def beside(self, location: str) -> "Endpoint":
        """Another address of the same server. ValueError: it is none, or of another server."""
        target = self.url.join(URL(location))
        # The key in the headers is for this server alone.
        if not location or target.origin() != self.url.origin():
            raise ValueError("it is another place")
        return Endpoint(target, self._headers)


def header(name: str, value: str) -> bytes:
    """One line of a header for any value: what a header cannot carry is percent-encoded."""
    plain = value if value.isprintable() else quote(value)
    return f"{name}: {plain}\r\n".encode()


def _line(name: str, value: str) -> str:
    if not value.isprintable():
        raise ValueError(f"the header {name} has a character that a header cannot have")
    return f"{name}: {value}\r\n"
