"""The router's HTTP client: calls of all dialects and health checks (docs/decisions/0003)."""

import asyncio
from collections.abc import AsyncIterable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from ssl import SSLContext, create_default_context
from typing import Any

import aiohttp
from yarl import URL

from beacon_router.backends.errors import bad_payload, connection_lost, status_error, text_of, unreachable
from beacon_router.backends.types import BackendError, ResponseReader, WireRequest, WireResponse

CONNECT_TIMEOUT_S = 10.0
# Shorter than the keep-alive of common servers (uvicorn: 5 s), so that they rarely close a connection in use.
KEEP_ALIVE_S = 3.0
WEBSOCKET_HEARTBEAT_S = 30.0
MAX_HEADER_BYTES = 16_384  # of one header field; aiohttp bounds their number
READ_BUFFER_BYTES = 65_536
# Modal redirects after at most 150 s each time; run timeouts end real runs long before this.
MAX_REDIRECTS = 1_000
REDIRECT_STATUS = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True)
class BackendTransport:
    """How one backend is reached. `ssl`: False verifies nothing; True trusts the machine's authorities."""

    ssl: SSLContext | bool = True
    proxy: URL | None = None
    connect_timeout_s: float = CONNECT_TIMEOUT_S

    @cached_property
    def options(self) -> Mapping[str, Any]:
        """Of each request to the backend."""
        timeout = aiohttp.ClientTimeout(total=None, connect=self.connect_timeout_s)
        return {"ssl": self.ssl, "proxy": self.proxy, "timeout": timeout, "allow_redirects": False}


DIRECT = BackendTransport()


class BackendClient:
    """A service. Each response is read in pieces and bounded; backend slots bound the connections."""

    name = "backend_client"

    def __init__(self, *, keep_alive_s: float = KEEP_ALIVE_S) -> None:
        self._stopped = asyncio.Event()
        connector = aiohttp.TCPConnector(
            limit=0, keepalive_timeout=keep_alive_s, ssl=create_default_context()
        )
        options: dict[str, Any] = {
            "connector": connector,
            "cookie_jar": aiohttp.DummyCookieJar(),
            "headers": {
                "user-agent": "beacon-router",
                "accept": "application/json, text/event-stream, */*",
                "accept-encoding": "identity",
            },
            "max_line_size": MAX_HEADER_BYTES,
            "max_field_size": MAX_HEADER_BYTES,
        }
        self._session = aiohttp.ClientSession(**options, read_bufsize=READ_BUFFER_BYTES)
        # Its own session: tracing costs each request, and each piece of its response, several calls.
        self._websockets = aiohttp.ClientSession(
            **options, connector_owner=False, trace_configs=[_no_redirects()]
        )

    async def send(
        self,
        request: WireRequest,
        transport: BackendTransport = DIRECT,
        *,
        max_bytes: int,
        reader: ResponseReader | None = None,
        follow: Callable[[WireRequest, WireResponse], WireRequest] | None = None,
    ) -> WireResponse:
        """Send it and follow redirects, on the same origin or as `follow` allows.

        The reader reads the body of a successful response; any other body has at most `max_bytes`.
        All transport errors become BackendError.
        """
        follow = follow or redirect
        for _ in range(MAX_REDIRECTS + 1):
            response = await self._send_once(request, transport, max_bytes, reader)
            if response.status not in REDIRECT_STATUS:
                return response
            request = follow(request, response)
        raise bad_payload(f"the backend redirected more than {MAX_REDIRECTS} times")

    async def status_of(
        self, url: URL, transport: BackendTransport = DIRECT, headers: Mapping[str, str] | None = None
    ) -> int:
        """The status of a GET, without its body and without redirects."""
        try:
            async with self._session.get(url, headers=headers, **transport.options) as response:
                return response.status
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise unreachable(error) from error
        except aiohttp.ClientHttpProxyError as error:
            raise _proxy_error(error) from error
        except (aiohttp.ClientError, OSError) as error:
            raise connection_lost(text_of(error)) from error

    def websocket(
        self, url: URL, headers: Mapping[str, str], transport: BackendTransport = DIRECT, *, max_bytes: int
    ) -> AbstractAsyncContextManager[aiohttp.ClientWebSocketResponse]:
        """`max_bytes`: of one message. Raises errors of aiohttp."""
        return self._websockets.ws_connect(
            url,
            headers=headers,
            ssl=transport.ssl,
            proxy=transport.proxy,
            max_msg_size=max_bytes,
            heartbeat=WEBSOCKET_HEARTBEAT_S,
        )

    async def _send_once(
        self,
        request: WireRequest,
        transport: BackendTransport,
        max_bytes: int,
        reader: ResponseReader | None,
    ) -> WireResponse:
        try:
            async with self._session.request(
                request.method,
                request.url,
                data=request.body() if callable(request.body) else request.body,
                headers=request.headers,
                **transport.options,
            ) as response:
                head = WireResponse(response.status, response.headers)
                if reader is not None and 200 <= response.status < 300:
                    return await reader.read(head, response.content)
                return head._replace(body=await read_all(response.content.iter_any(), max_bytes))
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise unreachable(error) from error
        except aiohttp.ClientHttpProxyError as error:
            raise _proxy_error(error) from error
        except aiohttp.ClientPayloadError as error:
            if isinstance(error.__cause__, aiohttp.http_exceptions.ContentEncodingError):
                raise bad_payload("the response cannot be decompressed") from error
            raise connection_lost("the response ended before it was complete") from error
        except aiohttp.ClientResponseError as error:
            raise bad_payload(f"the response is not valid HTTP: {error.message}") from error
        except (aiohttp.ClientError, OSError) as error:
            raise connection_lost(text_of(error)) from error

    async def start(self) -> None:
        """Connections are opened when they are needed."""

    async def wait(self) -> None:
        await self._stopped.wait()

    async def stop(self) -> None:
        await self._websockets.close()
        await self._session.close()
        self._stopped.set()


def redirect(request: WireRequest, response: WireResponse) -> WireRequest:
    """The next request of a redirect on the same origin."""
    location = response.headers.get("location", "")
    try:
        target = request.url.join(URL(location))
        followed = bool(location) and same_origin(target, request.url)
    except ValueError as error:
        raise bad_payload(f"a redirect to {location[:200]!r}: {error}") from error
    if not followed:
        raise bad_payload(f"a redirect to {location[:200]!r}, which is not on the same origin")
    if response.status == 303:
        return WireRequest("GET", target, {k: v for k, v in request.headers.items() if k != "content-type"})
    return request._replace(url=target)


def same_origin(first: URL, second: URL) -> bool:
    """The credentials in the headers are for one origin only."""
    return first.origin() == second.origin()


def _no_redirects() -> aiohttp.TraceConfig:
    """aiohttp follows those of WebSockets, with the credentials, and has no option against it."""

    async def refuse(_: object, __: object, redirected: aiohttp.TraceRequestRedirectParams) -> None:
        redirected.response.close()
        raise aiohttp.ClientError("a redirect of a WebSocket")

    tracing = aiohttp.TraceConfig()
    tracing.on_request_redirect.append(refuse)
    return tracing


def _proxy_error(error: aiohttp.ClientHttpProxyError) -> BackendError:
    if error.status == 407:
        return status_error(407, "", None, datetime.now(UTC))
    return unreachable(Exception(f"its proxy answered {error.status} to CONNECT"))


async def read_all(pieces: AsyncIterable[bytes], max_bytes: int) -> bytes:
    """The pieces in one; BackendError if they are longer."""
    body = bytearray()
    async for piece in pieces:
        body += piece
        if len(body) > max_bytes:
            raise bad_payload(f"the response is longer than {max_bytes} bytes")
    return bytes(body)
