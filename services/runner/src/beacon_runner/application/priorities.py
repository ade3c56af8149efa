"""Which class a user's jobs go to: the tier's, or what an external priority service says."""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import quote

import httpx
import structlog
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
from beacon_lifecycle import Clock, TaskSet
from beacon_runner.domain.breaker import Breaker

log = structlog.get_logger(__name__)

WITHOUT_ANSWER = JobClass.MEDIUM
_FAILURES = (httpx.HTTPError, httpx.InvalidURL, ValidationError)


class Priorities(Protocol):
    async def class_of(self, user: UserId, tiers_class: JobClass) -> JobClass: ...

    async def close(self) -> None: ...


class TierPriorities:
    """Without a service the tier decides."""

    async def class_of(self, user: UserId, tiers_class: JobClass) -> JobClass:  # noqa: ARG002
        return tiers_class

    async def close(self) -> None:
        """There is nothing to close."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a submission may wait, how long one question may take, and how long answers are believed."""

    submission_s: float = 0.25
    request_s: float = 0.5
    fresh_s: float = 60.0
    forgotten_s: float = 3_600.0
    failures: int = 3
    open_s: float = 10.0


class _Answer(BaseModel):
    priority: JobClass


@dataclass(frozen=True, slots=True)
class _Known:
    job_class: JobClass
    asked_at: float


class PriorityService:
    """Asks `GET {url}/users/{id}/priority`. An answer that is old is used while it is asked for anew, so only
    a user's first submission can wait, and that no longer than a blink; while the service is known to be
    away, or leaves somebody else's question unanswered, nobody waits and nothing more is asked.
    """

    def __init__(
        self,
        url: str,
        clock: Clock,
        registry: CollectorRegistry,
        *,
        usable: frozenset[JobClass] = frozenset(JobClass),
        patience: Patience | None = None,
        most: int = 100_000,
    ) -> None:
        self._patience = patience or Patience()
        self._http = httpx.AsyncClient(base_url=url.rstrip("/"), timeout=self._patience.request_s)
        self._clock = clock
        self._usable = usable
        self._most = most
        self._known: OrderedDict[UserId, _Known] = OrderedDict()
        self._asking: dict[UserId, asyncio.Task[None]] = {}
        self._overdue: set[UserId] = set()
        self._tasks = TaskSet("priorities")
        self._breaker = Breaker(self._patience.failures, self._patience.open_s)
        self._lookups = Counter(
            "beacon_runner_priority_lookups",
            "Questions to the external priority service",
            ["outcome"],
            registry=registry,
        )

    async def class_of(self, user: UserId, tiers_class: JobClass) -> JobClass:
        known = self._known.get(user)
        if known is None or self._age_s(known) > self._patience.fresh_s:
            asking = self._ask(user)
            if asking is not None and known is None and self._breaker.closed and user not in self._overdue:
                await asyncio.wait({asking}, timeout=self._patience.submission_s)
                known = self._known.get(user)
                if self._asking.get(user) is asking:
                    self._overdue.add(user)
        if known is None or self._age_s(known) > self._patience.forgotten_s:
            return WITHOUT_ANSWER
        return known.job_class if known.job_class in self._usable else tiers_class

    async def close(self) -> None:
        await self._tasks.close()
        await self._http.aclose()

    def _age_s(self, known: _Known) -> float:
        return self._clock.now() - known.asked_at

    def _ask(self, user: UserId) -> asyncio.Task[None] | None:
        """One question for each user at a time; none while another is overdue or the breaker is open."""
        if user in self._asking:
            return self._asking[user]
        if self._overdue or not self._breaker.allows(self._clock.now()):
            return None
        self._asking[user] = self._tasks.spawn(f"ask-{user}", self._look_up(user))
        return self._asking[user]

    async def _look_up(self, user: UserId) -> None:
        try:
            async with asyncio.timeout(2 * self._patience.request_s):
                self._remember(user, await self._answer(user))
        except (*_FAILURES, TimeoutError) as error:
            self._breaker.failed(self._clock.now())
            self._lookups.labels("failed").inc()
            log.warning("priority_service_failed", error=str(error) or type(error).__name__)
        else:
            self._breaker.succeeded()
            self._lookups.labels("answered").inc()
        finally:
            del self._asking[user]
            self._overdue.discard(user)

    async def _answer(self, user: UserId) -> JobClass:
        # A connection that broke is worth another try; a service that hangs would only hang again.
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

    def _remember(self, user: UserId, job_class: JobClass) -> None:
        self._known[user] = _Known(job_class, self._clock.now())
        self._known.move_to_end(user)
        while len(self._known) > self._most:
            self._known.popitem(last=False)
