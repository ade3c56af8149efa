"""The HTTP client under all adapters. aiohttp, because the hot path is three times cheaper on it."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp
import orjson
from multidict import CIMultiDictProxy
from yarl import URL

from beacon_lifecycle import Clock
from beacon_router.backends.calls import BackendError
from beacon_router.backends.verdicts import bad_payload, connection_lost, status_error, unreachable

Headers = Mapping[str, str]

_CONNECT_TIMEOUT_S = 10.0
# Shorter than any server's own (uvicorn's is 5 s): a connection is not closed under a request in flight.
_KEEP_ALIVE_S = 3.0
_BASE_HEADERS = {"content-type": "application/json", "accept-encoding": "identity"}
_STREAM_CHUNK = 16_384


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    headers: CIMultiDictProxy[str]
    body: bytes


class HttpSender:
    """Sends one request and reads one bounded answer; every way to fail becomes a BackendError."""

    def __init__(self, session: aiohttp.ClientSession, clock: Clock, *, answer_bytes: int) -> None:
        self._session = session
        self._clock = clock
        self._answer_bytes = answer_bytes

    async def post(self, url: URL, body: bytes, headers: Headers) -> Reply:
        return await self._exchange("POST", url, body, headers)

    async def get(self, url: URL, headers: Headers) -> Reply:
        return await self._exchange("GET", url, None, headers)

    @asynccontextmanager
    async def stream(self, url: URL, body: bytes, headers: Headers) -> AsyncIterator[AsyncIterator[bytes]]:
        """The pieces of a streamed answer as they come; a status that is no success is a BackendError."""
        with _translated():
            async with self._request("POST", url, body, headers) as response:
                if response.status != 200:
                    raise self.refused(await self._reply(response))
                yield response.content.iter_chunked(_STREAM_CHUNK)

    def refused(self, reply: Reply) -> BackendError:
        text = reply.body[:2000].decode("utf-8", "replace")
        return status_error(reply.status, text, reply.headers.get("retry-after"), self._clock.wall())

    async def _exchange(self, method: str, url: URL, body: bytes | None, headers: Headers) -> Reply:
        with _translated():
            async with self._request(method, url, body, headers) as response:
                return await self._reply(response)

    def _request(
        self, method: str, url: URL, body: bytes | None, headers: Headers
    ) -> "aiohttp.client._RequestContextManager":
        return self._session.request(method, url, data=body, headers=headers, allow_redirects=False)

    async def _reply(self, response: aiohttp.ClientResponse) -> Reply:
        length = response.content_length
        if length is not None and length <= self._answer_bytes:
            body = await response.read()
        else:
            body = await self._read_bounded(response)
        return Reply(response.status, response.headers, body)

    async def _read_bounded(self, response: aiohttp.ClientResponse) -> bytes:
        pieces = bytearray()
        async for piece in response.content.iter_any():
            pieces += piece
            if len(pieces) > self._answer_bytes:
                raise bad_payload(f"the answer is longer than {self._answer_bytes} bytes")
        return bytes(pieces)


class _translated:  # noqa: N801
    """A context that turns the client library's errors into ours; a class, as it is on the hot path."""

    __slots__ = ()

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if error is None or isinstance(error, BackendError):
            return
        if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
            raise unreachable(error) from error
        if isinstance(error, aiohttp.ClientResponseError):
            raise bad_payload(f"the answer is not HTTP: {error.message}") from error
        if isinstance(error, aiohttp.ClientError | OSError | TimeoutError):
            raise connection_lost(error) from error


def json_object(reply: Reply) -> dict[str, object]:
    """The JSON object of a successful answer."""
    try:
        document = orjson.loads(reply.body)
    except orjson.JSONDecodeError as error:
        kind = reply.headers.get("content-type", "no type")
        raise bad_payload(f"the answer is not JSON ({kind}, {len(reply.body)} bytes): {error}") from error
    if not isinstance(document, dict):
        raise bad_payload("the answer is JSON, but not an object")
    return document


def new_session() -> aiohttp.ClientSession:
    """Connections of the router's own. The slots bound how many there are, not the pool."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEP_ALIVE_S, ttl_dns_cache=30),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_TIMEOUT_S),
        headers=_BASE_HEADERS,
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
    )
