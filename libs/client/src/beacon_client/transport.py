"""One HTTP exchange, quickly: httpx's requests and responses over aiohttp's connections.

At 64 in flight plain httpx does a tenth of this (its pool looks at every connection for every request), and
httpx's client layer (cookies, redirects, auth flow) costs as much again as the exchange itself. The hot path
therefore calls the transport directly; decision 0003 has the numbers.
"""

import asyncio
import os
import ssl
from dataclasses import dataclass
from typing import cast

import aiohttp
import httpx
from httpx_aiohttp import AiohttpTransport

_NEVER_CONNECTED = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, httpx.ConnectError)


class ExchangeError(Exception):
    """No whole answer came back. `sent` is false when the request cannot have reached the server."""

    def __init__(self, reason: str, *, sent: bool) -> None:
        super().__init__(reason)
        self.sent = sent


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: httpx.Headers
    body: bytes


def open_transport(*, keepalive_s: float = 30.0) -> AiohttpTransport:
    """A transport without a connection limit of its own: who calls decides how much is in flight."""
    # The session below brings its own TLS context, which verifies; the transport's goes unused, and reading
    # the certificates for it would cost every command a fifth of a second.
    unused_context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return AiohttpTransport(verify=unused_context, client=lambda: _session(keepalive_s))


def _session(keepalive_s: float) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=keepalive_s, ttl_dns_cache=10),
        cookie_jar=aiohttp.DummyCookieJar(),
    )


async def exchange(
    transport: httpx.AsyncBaseTransport, request: httpx.Request, *, timeout_s: float
) -> Answer:
    """Send and read the whole answer; nothing of it outlives `timeout_s`."""
    try:
        async with asyncio.timeout(timeout_s):
            response = await transport.handle_async_request(request)
            try:
                # Straight from the transport: the decoding layers of `aread` cost more than the body.
                stream = cast("httpx.AsyncByteStream", response.stream)
                body = b"".join([chunk async for chunk in stream])
            finally:
                await response.aclose()
    except TimeoutError:
        raise ExchangeError(f"no answer within {timeout_s:g} s", sent=True) from None
    except (httpx.HTTPError, httpx.StreamError, aiohttp.ClientError, OSError) as error:
        raise _translated(error) from error
    return Answer(response.status_code, response.headers, body)


def never_connected(error: BaseException) -> bool:
    """Whether the request cannot have reached the server."""
    return isinstance(error.__cause__ or error, _NEVER_CONNECTED)


def _translated(error: Exception) -> ExchangeError:
    """httpx-aiohttp gives a refused connection and a lost one the same class; the cause tells them apart."""
    return ExchangeError(reason_of(error), sent=not never_connected(error))


def reason_of(error: BaseException) -> str:
    """What went wrong with a connection, in few words."""
    cause = error.__cause__ or error
    if never_connected(error):
        number = getattr(cause, "errno", None)
        # The errors of looking up a name have negative numbers, which only they can explain.
        told = os.strerror(number) if number and number > 0 else getattr(cause, "strerror", None) or cause
        return f"cannot connect ({told})"
    return f"the connection was lost ({cause if str(cause) else type(cause).__name__})"
