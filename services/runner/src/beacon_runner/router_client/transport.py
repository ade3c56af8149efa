"""One HTTP exchange with a router: its response within a time limit, or a `RouterExchangeError`."""

import asyncio
import os
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from yarl import URL

KEEPALIVE_S = 30.0
DNS_CACHE_S = 10
PART_BYTES = 65_536


class RouterExchangeError(Exception):
    """No complete response. `sent` is false when the request cannot have reached the server."""

    def __init__(self, reason: str, *, sent: bool) -> None:
        super().__init__(reason)
        self.sent = sent


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A complete response; the header names are case-insensitive."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class RouterTransport:
    """Pooled connections without a limit: the callers bound the exchanges in flight."""

    def __init__(self, *, connect_s: float) -> None:
        self._connect_s = connect_s
        self._session: aiohttp.ClientSession | None = None

    async def exchange(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None = None,
        *,
        timeout_s: float,
    ) -> HttpAnswer:
        """Send the request and read the whole response within `timeout_s`."""
        with _exchange_errors(timeout_s):
            async with (
                asyncio.timeout(timeout_s),
                self._request(method, url, headers, body) as response,
            ):
                return HttpAnswer(response.status, response.headers, await response.read())

    @asynccontextmanager
    async def open(
        self, url: str, headers: Mapping[str, str], body: bytes, *, timeout_s: float
    ) -> AsyncGenerator[aiohttp.ClientResponse]:
        """POST; the response is read inside, as it arrives.

        `timeout_s` limits the time until its head has arrived, and the time between two parts of it.
        """
        with _exchange_errors(timeout_s):
            async with (
                asyncio.timeout(timeout_s) as until_head,
                self._request("POST", url, headers, body, idle_s=timeout_s) as response,
            ):
                until_head.reschedule(None)
                yield response

    async def aclose(self) -> None:
        if self._session is not None:
            await self._session.close()

    def _request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None,
        *,
        idle_s: float | None = None,
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        if self._session is None:  # created at the first use: it belongs to the running event loop
            connector = aiohttp.TCPConnector(
                limit=0, keepalive_timeout=KEEPALIVE_S, ttl_dns_cache=DNS_CACHE_S
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                skip_auto_headers=("accept-encoding", "user-agent"),
            )
        data = None if body is None else SharedBytes(body)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=self._connect_s, sock_read=idle_s)
        return self._session.request(
            method, URL(url, encoded=True), headers=headers, data=data, allow_redirects=False, timeout=timeout
        )


class SharedBytes(aiohttp.Payload):
    """A request body that is sent in parts and never copied; aiohttp's own payloads do one or the other."""

    _value: bytes
    _autoclose = True

    def __init__(self, body: bytes) -> None:
        super().__init__(body)
        self._size = len(body)

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return self._value.decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        view = memoryview(self._value)
        for start in range(0, len(view), PART_BYTES):
            await writer.write(view[start : start + PART_BYTES])


@contextmanager
def _exchange_errors(timeout_s: float) -> Iterator[None]:
    try:
        yield
    except aiohttp.ConnectionTimeoutError as error:
        raise RouterExchangeError(f"cannot connect ({error})", sent=False) from error
    except TimeoutError:
        raise RouterExchangeError(f"no answer within {timeout_s:g} s", sent=True) from None
    except aiohttp.ClientConnectorError as error:
        raise RouterExchangeError(f"cannot connect ({_os_reason(error)})", sent=False) from error
    except (aiohttp.ClientError, OSError) as error:
        reason = str(error) or type(error).__name__
        raise RouterExchangeError(f"the connection was lost ({reason})", sent=True) from error


def _os_reason(error: aiohttp.ClientConnectorError) -> str:
    # Name resolution errors have negative numbers that strerror does not know.
    number = error.os_error.errno
    return os.strerror(number) if number and number > 0 else error.os_error.strerror or str(error.os_error)
