"""The state of one inference call over routers that restart, fill up and disappear. Pure.

A request stays at the router that may be running it. It is sent again, to the same router or another, when
that router is gone (its memory is lost) or does not know it; the request id makes that safe.
"""

from dataclasses import dataclass, field
from typing import assert_never

from beacon_contracts.inference import InferenceView
from beacon_runner.ports.router import RouterBusy, RouterUnreachable
from beacon_runner.router_client.endpoints import RouterEndpoint, RouterEndpoints
from beacon_runner.router_client.replies import BusyReply, NoReply, RouterReply, UnknownReply

BACKOFF_FIRST_S = 0.25
BACKOFF_MAX_S = 4.0
FAILURES_BEFORE_LEAVING = 3
MIN_POLL_S = 0.5


@dataclass(slots=True)
class RouterCall:
    """Decides the next router to ask, and the pause before it.

    `assigned` is the router that may be running the request; `accepted`: it confirmed that it holds it.
    """

    region: str | None
    max_tries: int
    assigned: RouterEndpoint | None = None
    accepted: bool = False
    tries: int = 0
    failures_in_a_row: int = 0
    busy: dict[RouterEndpoint, BusyReply] = field(default_factory=dict)

    def choose_router(self, endpoints: RouterEndpoints, now: float) -> RouterEndpoint:
        if self.assigned is not None:
            return self.assigned
        endpoint = endpoints.choose(self.region, now, without=self.busy)
        if endpoint is not None:
            return endpoint
        if not self.busy:
            raise RouterUnreachable(f"no router serves region {self.region}", tries=0)
        soonest = min(self.busy.values(), key=lambda busy: busy.retry_after_s)
        raise RouterBusy(soonest.retry_after_s, soonest.reason)

    def apply(self, endpoint: RouterEndpoint, reply: RouterReply, *, now: float, took_s: float) -> float:
        """Update the state with one reply; returns the seconds to wait before the next request."""
        match reply:
            case InferenceView():
                endpoint.record_success()
                return 0.0 if reply.state.terminal else self._on_pending(endpoint, took_s)
            case UnknownReply():
                endpoint.record_success()
                return self._start_over("the router does not know the request")
            case BusyReply():
                return self._on_busy(endpoint, reply)
            case NoReply():
                return self._on_failure(endpoint, reply.reason, sent=reply.sent, now=now, took_s=took_s)
            case _:
                assert_never(reply)

    def _on_pending(self, endpoint: RouterEndpoint, took_s: float) -> float:
        if self.accepted:
            self.tries = 0  # the router kept the request between two calls: real progress
        self.assigned, self.accepted, self.failures_in_a_row = endpoint, True, 0
        # A stopping router answers long polls immediately; polling again without a pause would spin.
        return 0.0 if took_s >= MIN_POLL_S else MIN_POLL_S

    def _on_busy(self, endpoint: RouterEndpoint, busy: BusyReply) -> float:
        """The request does not run there, unless it was not read: never accepted, or returned on shutdown."""
        endpoint.record_success()
        if self.assigned is not None and not busy.was_read:
            return max(busy.retry_after_s, self._count_try(f"{endpoint.url}: {busy.reason}"))
        self._unassign()
        self.busy[endpoint] = busy
        return 0.0

    def _on_failure(
        self, endpoint: RouterEndpoint, reason: str, *, sent: bool, now: float, took_s: float
    ) -> float:
        endpoint.record_failure(now, sent_at=now - took_s)
        self.failures_in_a_row += 1
        if sent and self.failures_in_a_row < FAILURES_BEFORE_LEAVING:
            self.assigned = endpoint
            return self._count_try(f"{endpoint.url}: {reason}")
        return self._start_over(f"{endpoint.url}: {reason}")

    def _start_over(self, reason: str) -> float:
        self._unassign()
        return self._count_try(reason)

    def _unassign(self) -> None:
        self.assigned, self.accepted, self.failures_in_a_row = None, False, 0

    def _count_try(self, reason: str) -> float:
        self.tries += 1
        if self.tries >= self.max_tries:
            raise RouterUnreachable(reason, tries=self.tries)
        if self.tries == 1:
            return 0.0
        backoff_s: float = min(BACKOFF_FIRST_S * 2.0 ** (self.tries - 2), BACKOFF_MAX_S)
        return backoff_s
