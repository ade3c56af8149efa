"""The class of a user's jobs: that of the tier, or the answer of an external priority service."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import quote

import httpx
import structlog
from cachetools import TTLCache
from prometheus_client import CollectorRegistry, Counter
from pydantic import BaseModel, ValidationError
from tenacity import (
    AsyncRetrying,
    retry_if_exception_type,
    retry_if_not_exception_type,
    stop_after_attempt,
    wait_fixed,
)

from beacon_contracts.ids import USER, UserId, encode_id
from beacon_contracts.tiers import JobClass
from beacon_lifecycle import CircuitBreaker, Clock, TaskSet

log = structlog.get_logger(__name__)

DEFAULT_CLASS = JobClass.MEDIUM
_FAILURES = (httpx.HTTPError, httpx.InvalidURL, ValidationError)


@dataclass(frozen=True, slots=True)
class PriorityTimeouts:
    """Seconds that a submission waits, that one request may take, and that an answer is used."""

    submission_s: float = 0.25
    request_s: float = 0.5
    fresh_s: float = 60.0
    max_age_s: float = 3_600.0
    failures: int = 3
    open_s: float = 10.0


class _Answer(BaseModel):
    priority: JobClass


@dataclass(frozen=True, slots=True)
class _Known:
    job_class: JobClass
    answered_at: float


class PriorityService:
    """Requests `GET {url}/users/{id}/priority`.

    An old answer is used while it is refreshed, so only a user's first submission waits, and at most
    `submission_s`. While the breaker is open or a request is overdue, no submission waits.
    """

    def __init__(
        self,
        url: str,
        clock: Clock,
        registry: CollectorRegistry,
        *,
        usable: Callable[[], frozenset[JobClass]] = lambda: frozenset(JobClass),
        timeouts: PriorityTimeouts | None = None,
        max_users: int = 100_000,
    ) -> None:
        self._timeouts = timeouts or PriorityTimeouts()
        self._http = httpx.AsyncClient(base_url=url.rstrip("/"), timeout=self._timeouts.request_s)
        self._clock = clock
        self._usable = usable
        self._known: TTLCache[UserId, _Known] = TTLCache(
            max_users, ttl=self._timeouts.max_age_s, timer=clock.now
        )
        self._requests: dict[UserId, asyncio.Task[None]] = {}
        self._overdue: set[UserId] = set()
        self._tasks = TaskSet("priorities")
        self._breaker = CircuitBreaker(max_failures=self._timeouts.failures, open_s=self._timeouts.open_s)
        self._lookups = Counter(
            "beacon_runner_priority_lookups",
            "Requests to the external priority service",
            ["outcome"],
            registry=registry,
        )

    async def class_of(self, user: UserId, tier_class: JobClass) -> JobClass:
        known = self._known.get(user)
        if known is None or self._age_s(known) > self._timeouts.fresh_s:
            request = self._request(user)
            if request is not None and known is None and self._breaker.closed and user not in self._overdue:
                await asyncio.wait({request}, timeout=self._timeouts.submission_s)
                known = self._known.get(user)
                if self._requests.get(user) is request:
                    self._overdue.add(user)
        if known is None:
            return DEFAULT_CLASS
        return known.job_class if known.job_class in self._usable() else tier_class

    async def close(self) -> None:
        await self._tasks.close()
        await self._http.aclose()

    def _age_s(self, known: _Known) -> float:
        return self._clock.now() - known.answered_at

    def _request(self, user: UserId) -> asyncio.Task[None] | None:
        """One request for each user at a time; none while another is overdue or the breaker is open."""
        if user in self._requests:
            return self._requests[user]
        if self._overdue or not self._breaker.try_call(self._clock.now()):
            return None
        self._requests[user] = self._tasks.spawn(f"request-{user}", self._refresh(user))
        return self._requests[user]

    async def _refresh(self, user: UserId) -> None:
        try:
            async with asyncio.timeout(2 * self._timeouts.request_s):
                self._known[user] = _Known(await self._fetch(user), self._clock.now())
        except (*_FAILURES, TimeoutError) as error:
            self._breaker.record_failure(self._clock.now())
            self._lookups.labels("failed").inc()
            log.warning("priority_service_failed", error=str(error) or type(error).__name__)
        else:
            self._breaker.record_success()
            self._lookups.labels("answered").inc()
        finally:
            del self._requests[user]
            self._overdue.discard(user)

    async def _fetch(self, user: UserId) -> JobClass:
        # A broken connection is retried; a timeout is not.
        again = retry_if_exception_type(httpx.TransportError) & retry_if_not_exception_type(
            httpx.TimeoutException
        )
        async for attempt in AsyncRetrying(
            stop=stop_after_attempt(2), wait=wait_fixed(0.05), retry=again, reraise=True
        ):
            with attempt:
                response = await self._http.get(f"/users/{quote(encode_id(USER, user), safe='')}/priority")
                response.raise_for_status()
                return _Answer.model_validate_json(response.content).priority
        raise AssertionError("unreachable: the last attempt raises or returns")
