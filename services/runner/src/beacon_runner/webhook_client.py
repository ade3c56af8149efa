"""Sends webhooks. Receivers are chosen by users, so only addresses that are allowed are ever connected to."""

import asyncio
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address

import aiohttp
import structlog
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from beacon_lifecycle import Clock
from beacon_runner.domain.webhooks.urls import (
    AddressNotAllowedError,
    Network,
    checked_address,
    is_allowed,
    url_problem,
)
from beacon_runner.domain.webhooks.webhooks import Attempt, LeasedDelivery, headers, message

log = structlog.get_logger(__name__)

TIMEOUT_S = 15.0
RESOLVER_THREADS = 64


class WebhookClient:
    """One connection per request. The response's body is not read: only its status counts."""

    def __init__(self, allowed: Sequence[Network], clock: Clock, *, timeout_s: float = TIMEOUT_S) -> None:
        self._allowed = tuple(allowed)
        self._clock = clock
        self._timeout_s = timeout_s
        self._session: aiohttp.ClientSession | None = None

    async def send(self, delivery: LeasedDelivery) -> Attempt:
        """One request, whatever comes of it."""
        at, started = self._clock.wall(), self._clock.now()
        status, error = None, url_problem(delivery.url, self._allowed)
        if error is None:
            try:
                async with asyncio.timeout(self._timeout_s):
                    status = await self._post(delivery)
            except (TimeoutError, AddressNotAllowedError, OSError, aiohttp.ClientError, ValueError) as cause:
                error = self._explain(cause)
            except Exception:
                # Without an attempt, the delivery would be sent again at the end of each lease.
                log.exception("webhook_send_failed", delivery=str(delivery.id))
                error = "the request could not be sent"
        return Attempt(at, self._clock.now() - started, status, error)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def _post(self, delivery: LeasedDelivery) -> int:
        body = message(delivery)
        signed = headers(delivery, body, self._clock.wall())
        url = URL(delivery.url, encoded=True)
        async with self._open().post(url, data=body, headers=signed, allow_redirects=False) as response:
            return response.status

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(
                limit=0,  # the caller bounds the requests in flight
                force_close=True,
                use_dns_cache=False,
                resolver=_CheckedResolver(self._allowed),
                socket_factory=self._socket,
            )
            self._session = aiohttp.ClientSession(
                connector=connector, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False
            )
        return self._session

    def _socket(self, address: aiohttp.AddrInfoType) -> socket.socket:
        """A socket for an address that is about to be connected to, also one that needed no resolver."""
        family, kind, protocol, _, target = address
        checked_address(str(target[0]), str(target[0]), self._allowed)
        return socket.socket(family, kind, protocol)

    def _explain(self, error: Exception) -> str:
        """For the owner of the endpoint: nothing about the network of the relay."""
        match error:
            case TimeoutError():
                return f"no response within {self._timeout_s:g} s"
            case AddressNotAllowedError():
                return "the host resolves to an address that is not public"
            case aiohttp.ClientConnectorDNSError():
                return "the host cannot be resolved"
            case aiohttp.ClientSSLError():
                return "the TLS connection failed; check the certificate"
            case aiohttp.ClientConnectorError() | aiohttp.ServerDisconnectedError() | OSError():
                return "the connection failed"
        return "the response is not valid HTTP"


class _CheckedResolver(AbstractResolver):
    """The allowed addresses of a name; raises if there are others only.

    Threads of its own: a name server that is slow delays nothing else in the process.
    """

    def __init__(self, allowed: Sequence[Network]) -> None:
        self._allowed = allowed
        self._threads = ThreadPoolExecutor(RESOLVER_THREADS, thread_name_prefix="webhook-dns")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await asyncio.get_running_loop().run_in_executor(
            self._threads, _addresses, host, port, family
        )
        usable = [one for one in found if is_allowed(ip_address(one[1].partition("%")[0]), self._allowed)]
        if found and not usable:
            raise AddressNotAllowedError(host, ip_address(found[0][1].partition("%")[0]))
        return [
            ResolveResult(hostname=host, host=address, port=port, family=of, proto=0, flags=_NUMERIC)
            for of, address in usable
        ]

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


_NUMERIC = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV


def _addresses(host: str, port: int, family: int) -> list[tuple[int, str]]:
    found = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM, 0, socket.AI_ADDRCONFIG)
    return [(of, str(target[0])) for of, _, _, _, target in found]
