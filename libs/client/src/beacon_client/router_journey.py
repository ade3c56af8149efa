"""One request on its way through routers that restart, fill up and go away: what to do next. Pure.

A request stays with the router that may be running it. It is sent again, to the same router or another, when
that router is gone (its memory went with it) or has forgotten it; the request id makes that safe.
"""

from dataclasses import dataclass, field
from typing import assert_never

from beacon_client.errors import RouterBusy, RouterUnreachable
from beacon_client.router_answers import Broken, Busy, Done, Lost, Meaning, Waiting
from beacon_client.router_endpoints import Endpoint, Endpoints

BACKOFF_FIRST_S = 0.25
BACKOFF_MAX_S = 4.0
FAILURES_BEFORE_LEAVING = 3
SHORTEST_POLL_S = 0.5


@dataclass(frozen=True, slots=True)
class Unanswered:
    """No answer; `sent` says whether the router may have got the request."""

    reason: str
    sent: bool


@dataclass(slots=True)
class Journey:
    """What has been learnt so far, and from it the next router to ask and how long to wait before."""

    region: str
    max_tries: int
    home: Endpoint | None = None
    accepted: bool = False
    tries: int = 0
    failures_at_home: int = 0
    busy: dict[Endpoint, Busy] = field(default_factory=dict)

    def next_router(self, endpoints: Endpoints, now: float) -> Endpoint:
        if self.home is not None:
            return self.home
        endpoint = endpoints.choose(self.region, now, without=self.busy)
        if endpoint is not None:
            return endpoint
        if not self.busy:
            raise RouterUnreachable(f"no router serves region {self.region}", tries=0)
        soonest = min(self.busy.values(), key=lambda busy: busy.retry_after_s)
        raise RouterBusy(soonest.retry_after_s, soonest.reason)

    def learn(self, endpoint: Endpoint, meaning: Meaning | Unanswered, *, now: float, took_s: float) -> float:
        """Take in one outcome; the seconds to wait before the next step."""
        match meaning:
            case Done():
                endpoint.answered()
                return 0.0
            case Waiting():
                return self._settle(endpoint, took_s)
            case Lost():
                endpoint.answered()
                return self._start_over("the router does not know the request")
            case Busy():
                return self._accept_refusal(endpoint, meaning)
            case Broken():
                return self._survive(endpoint, meaning.reason, sent=True, now=now)
            case Unanswered():
                return self._survive(endpoint, meaning.reason, sent=meaning.sent, now=now)
            case _:
                assert_never(meaning)

    def _settle(self, endpoint: Endpoint, took_s: float) -> float:
        endpoint.answered()
        if self.accepted:
            self.tries = 0  # it was remembered from one call to the next: real progress
        self.home, self.accepted, self.failures_at_home = endpoint, True, 0
        # A router that stops answers long polls at once; asking again at once would spin.
        return 0.0 if took_s >= SHORTEST_POLL_S else SHORTEST_POLL_S

    def _start_over(self, reason: str) -> float:
        self.home, self.accepted, self.failures_at_home = None, False, 0
        return self._count_try(reason)

    def _accept_refusal(self, endpoint: Endpoint, busy: Busy) -> float:
        """It is not running there: never taken, or given back by a router that stops. Unless nobody heard."""
        endpoint.answered()
        if self.home is not None and not busy.heard:
            return max(busy.retry_after_s, self._count_try(f"{endpoint.url}: {busy.reason}"))
        self.home, self.accepted, self.failures_at_home = None, False, 0
        self.busy[endpoint] = busy
        return 0.0

    def _survive(self, endpoint: Endpoint, reason: str, *, sent: bool, now: float) -> float:
        endpoint.failed(now)
        self.failures_at_home += 1
        if sent and self.failures_at_home < FAILURES_BEFORE_LEAVING:
            self.home = endpoint
            return self._count_try(f"{endpoint.url}: {reason}")
        return self._start_over(f"{endpoint.url}: {reason}")

    def _count_try(self, reason: str) -> float:
        self.tries += 1
        if self.tries >= self.max_tries:
            raise RouterUnreachable(reason, tries=self.tries)
        if self.tries == 1:
            return 0.0
        backoff_s: float = min(BACKOFF_FIRST_S * 2.0 ** (self.tries - 2), BACKOFF_MAX_S)
        return backoff_s
