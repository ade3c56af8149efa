"""Health checks of all backends, concurrently with dispatch: a slow backend delays nothing else."""

import asyncio
from collections.abc import Callable, Mapping

from yarl import URL

from beacon_contracts.failures import FailureStage
from beacon_lifecycle import RunResult
from beacon_router.backends import DIRECT, BackendClient, BackendError, BackendFault, BackendTransport
from beacon_router.service.inference import Run
from beacon_router.service.outcome import RunOutcome
from beacon_router.service.timers import Timers

CHECK_TIMEOUT_S = 5.0
FAILURES_UNTIL_DOWN = 2
RECHECK_S = 1.0  # while a backend is down


class HealthChecks:
    """A server that answers with a status below 500 is up: many have no health endpoint and answer 404.

    A backend that refuses the connection is down at once; a slow or failing response is checked again first.
    """

    def __init__(
        self,
        urls: Mapping[str, URL],
        client: BackendClient,
        *,
        transports: Mapping[str, BackendTransport] | None = None,
        report: Callable[[str, BackendFault | None], None],
        recheck: Callable[[], object],
    ) -> None:
        """`report`: the cause if the backend is down, None if it is up."""
        self._urls = urls
        self._transports = transports or {}
        self._client = client
        self._report = report
        self._recheck = recheck
        self._failures = dict.fromkeys(urls, 0)
        self._causes: dict[str, BackendFault] = {}

    def adopt(self, urls: Mapping[str, URL], transports: Mapping[str, BackendTransport]) -> None:
        """Check these from now on."""
        same = {name for name, url in urls.items() if self._urls.get(name) == url}
        self._failures = {name: self._failures[name] if name in same else 0 for name in urls}
        self._urls, self._transports = urls, transports

    async def run_once(self) -> RunResult:
        up = await asyncio.gather(*(self._check(name, url) for name, url in self._urls.items()))
        if not all(up):
            self._recheck()
        uncertain = any(0 < failures < FAILURES_UNTIL_DOWN for failures in self._failures.values())
        return RunResult(len(up), more=uncertain)

    async def _check(self, backend: str, url: URL) -> bool:
        failures = await self._consecutive_failures(backend, url)
        if backend not in self._urls:  # it was removed during the check
            return True
        self._failures[backend] = failures
        up = self._failures[backend] < FAILURES_UNTIL_DOWN
        self._report(backend, None if up else self._causes[backend])
        return up

    async def _consecutive_failures(self, backend: str, url: URL) -> int:
        try:
            async with asyncio.timeout(CHECK_TIMEOUT_S):
                transport = self._transports.get(backend, DIRECT)
                status = await self._client.status_of(url, transport)
        except BackendError as error:
            self._causes[backend] = error.fault or BackendFault(error.code, f"health check: {error.message}")
            certain = error.fault is not None or error.code == "backend_unreachable"
            return FAILURES_UNTIL_DOWN if certain else self._failures.get(backend, 0) + 1
        except TimeoutError:
            message = f"health check: no answer in {CHECK_TIMEOUT_S:g} s"
            self._causes[backend] = BackendFault("health_check_timeout", message)
            return self._failures.get(backend, 0) + 1
        if status < 500:
            return 0
        self._causes[backend] = BackendFault("health_check_failed", f"health check: answered {status}")
        return self._failures.get(backend, 0) + 1


class RecheckTimer:
    """Plans one recheck, no matter how many checks ask for it."""

    def __init__(self, timers: Timers, recheck: Callable[[], None]) -> None:
        self._timers = timers
        self._recheck = recheck
        self._planned = False

    def plan(self) -> None:
        if not self._planned:
            self._planned = True
            self._timers.after(RECHECK_S, self._due)

    def _due(self) -> None:
        self._planned = False
        self._recheck()


class RecheckOnTransportError:
    """Checks the backends at once when a connection fails."""

    def __init__(self, recheck: Callable[[], None]) -> None:
        self._recheck = recheck

    def run_ended(self, run: Run, outcome: RunOutcome) -> None:  # noqa: ARG002
        if outcome.error is not None and outcome.error.stage is FailureStage.TRANSPORT:
            self._recheck()
