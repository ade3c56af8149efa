"""Asks every backend how it is, beside the work: a slow answer delays nothing but itself."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import httpx
from yarl import URL

from beacon_config.topology import BackendConfig

_CHECK_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class Checked:
    up: int
    down: int
    more: bool = False


class HealthChecks:
    """A server that answers anything below 500 is up: many have no health page, and say 404."""

    def __init__(
        self, urls: Mapping[str, str], client: httpx.AsyncClient, report: Callable[[str, bool], None]
    ) -> None:
        self._urls = urls
        self._client = client
        self._report = report

    async def run_once(self) -> Checked:
        found = await asyncio.gather(*(self._check(name) for name in self._urls))
        return Checked(up=sum(found), down=len(found) - sum(found))

    async def _check(self, backend: str) -> bool:
        try:
            async with asyncio.timeout(_CHECK_TIMEOUT_S):
                answer = await self._client.get(self._urls[backend])
        except (httpx.HTTPError, OSError, TimeoutError):
            up = False
        else:
            up = answer.status_code < 500
        self._report(backend, up)
        return up


def health_urls(backends: Mapping[str, BackendConfig]) -> dict[str, str]:
    """`health_url`, or /healthz at the root of the backend's server."""
    return {name: _health_url(backend) for name, backend in backends.items()}


def _health_url(backend: BackendConfig) -> str:
    if backend.health_url is not None:
        return str(backend.health_url)
    return str(URL(str(backend.url)).with_path("/healthz").with_query(None))
