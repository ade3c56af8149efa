"""Asks every backend how it is, beside the work: a slow answer delays nothing but itself."""

import asyncio
from collections.abc import Callable, Mapping

import httpx
from yarl import URL

from beacon_config.topology import BackendConfig
from beacon_contracts.failures import FailureStage
from beacon_lifecycle import RunResult
from beacon_router.service.inference import Inference, Run
from beacon_router.service.outcome import RunEnd
from beacon_router.service.timers import Timers

_CHECK_TIMEOUT_S = 5.0
_FAILURES = 2
# A backend that is down is looked at more often: it is missed.
_LOOK_AGAIN_S = 1.0


class HealthChecks:
    """A server that answers anything below 500 is up: many have no health page, and say 404.

    One that nobody can connect to is down at once; a slow or failing answer is asked for again first.
    """

    def __init__(
        self,
        urls: Mapping[str, str],
        client: httpx.AsyncClient,
        *,
        report: Callable[[str, bool], None],
        look_again: Callable[[], object],
    ) -> None:
        self._urls = urls
        self._client = client
        self._report = report
        self._look_again = look_again
        self._failures = dict.fromkeys(urls, 0)

    async def run_once(self) -> RunResult:
        found = await asyncio.gather(*(self._check(name) for name in self._urls))
        if not all(found):
            self._look_again()
        doubtful = any(0 < failures < _FAILURES for failures in self._failures.values())
        return RunResult(len(found), more=doubtful)

    async def _check(self, backend: str) -> bool:
        self._failures[backend] = await self._failures_after(backend)
        up = self._failures[backend] < _FAILURES
        self._report(backend, up)
        return up

    async def _failures_after(self, backend: str) -> int:
        """Failed checks in a row, this one included."""
        try:
            async with asyncio.timeout(_CHECK_TIMEOUT_S):
                answer = await self._client.get(self._urls[backend])
        except httpx.ConnectError:
            return _FAILURES
        except (httpx.HTTPError, OSError, TimeoutError):
            return self._failures[backend] + 1
        return 0 if answer.status_code < 500 else self._failures[backend] + 1


class NextLook:
    """Plans one look ahead, however many looks ask for another: each of them would go on for itself."""

    def __init__(self, timers: Timers, look_now: Callable[[], None]) -> None:
        self._timers = timers
        self._look_now = look_now
        self._planned = False

    def plan(self) -> None:
        if not self._planned:
            self._planned = True
            self._timers.after(_LOOK_AGAIN_S, self._due)

    def _due(self) -> None:
        self._planned = False
        self._look_now()


def health_urls(backends: Mapping[str, BackendConfig]) -> dict[str, str]:
    """`health_url`, or /healthz at the root of the backend's server."""
    return {name: _health_url(backend) for name, backend in backends.items()}


def _health_url(backend: BackendConfig) -> str:
    if backend.health_url is not None:
        return str(backend.health_url)
    return str(URL(str(backend.url)).with_path("/healthz").with_query(None))


class HealthOnLoss:
    """An observer of runs: a connection that fails has the backends looked at now, not at the next tick."""

    def __init__(self, look_now: Callable[[], None]) -> None:
        self._look_now = look_now

    def started(self, run: Run) -> None:
        """Nothing to learn yet."""

    def run_ended(self, run: Run, end: RunEnd) -> None:  # noqa: ARG002 - of whichever backend
        if end.error is not None and end.error.stage is FailureStage.TRANSPORT:
            self._look_now()

    def ended(self, inference: Inference) -> None:
        """Runs tell all there is to know."""
