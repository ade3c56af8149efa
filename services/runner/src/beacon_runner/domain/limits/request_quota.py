"""The limits on a user's requests: how many start per minute, and how many run at the same time."""

from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice, takewhile
from typing import Self

from beacon_config.tiers import TierConfig
from beacon_contracts.ids import UserId

WINDOW_S = 60.0
CONCURRENT_RETRY_S = 1.0  # when a running request ends is unknown


class RequestLimit(StrEnum):
    REQUESTS_PER_MINUTE = "requests_per_minute"
    CONCURRENT_REQUESTS = "concurrent_requests"


@dataclass(frozen=True, slots=True)
class RequestQuota:
    """The limits of a user; None means no limit."""

    requests_per_minute: int | None = None
    concurrent_requests: int | None = None

    @classmethod
    def of(cls, tier: TierConfig) -> Self:
        return cls(tier.requests_per_minute, tier.concurrent_requests)

    @classmethod
    def of_streams(cls, tier: TierConfig) -> Self:
        """A stream counts while it is open; how many are opened per minute is not limited."""
        return cls(concurrent_requests=tier.streams)

    @property
    def unlimited(self) -> bool:
        return self.requests_per_minute is None and self.concurrent_requests is None


@dataclass(frozen=True, slots=True)
class RequestUse:
    """The requests that started within the last minute, and those that run.

    `room_in_s`: until fewer started within a minute than the quota allows.
    `clear_in_s`: until none of them started within a minute.
    """

    started: int = 0
    running: int = 0
    room_in_s: float = 0.0
    clear_in_s: float = 0.0


@dataclass(frozen=True, slots=True)
class LimitState:
    """`reset_s`: until all of the limit is left again, if that is known. None means no limit."""

    limit: int | None = None
    remaining: int | None = None
    reset_s: float | None = None


@dataclass(frozen=True, slots=True)
class Admitted:
    """A request that counts; it runs until it is released."""

    user: UserId
    request_id: str
    requests_per_minute: LimitState
    concurrent_requests: LimitState


@dataclass(frozen=True, slots=True)
class Refused:
    """A request that reached a limit and does not count."""

    user: UserId
    reached: RequestLimit
    retry_after_s: float
    requests_per_minute: LimitState
    concurrent_requests: LimitState


def reached_limit(quota: RequestQuota, use: RequestUse) -> RequestLimit | None:
    """The limit that one more request would exceed."""
    if quota.requests_per_minute is not None and use.started >= quota.requests_per_minute:
        return RequestLimit.REQUESTS_PER_MINUTE
    if quota.concurrent_requests is not None and use.running >= quota.concurrent_requests:
        return RequestLimit.CONCURRENT_REQUESTS
    return None


def admitted(user: UserId, request_id: str, quota: RequestQuota, use: RequestUse) -> Admitted:
    """`use` includes the request."""
    return Admitted(user, request_id, *limit_states(quota, use))


def refused(user: UserId, quota: RequestQuota, use: RequestUse) -> Refused:
    """`use` does not include the request."""
    reached = reached_limit(quota, use) or RequestLimit.CONCURRENT_REQUESTS
    by_rate = reached is RequestLimit.REQUESTS_PER_MINUTE
    return Refused(user, reached, use.room_in_s if by_rate else CONCURRENT_RETRY_S, *limit_states(quota, use))


def limit_states(quota: RequestQuota, use: RequestUse) -> tuple[LimitState, LimitState]:
    """Of the requests per minute and of the concurrent ones."""
    return (
        _state(quota.requests_per_minute, use.started, use.clear_in_s),
        _state(quota.concurrent_requests, use.running, None if use.running else 0.0),
    )


def _state(limit: int | None, used: int, reset_s: float | None) -> LimitState:
    return LimitState() if limit is None else LimitState(limit, max(0, limit - used), reset_s)


@dataclass(slots=True)
class LocalRequests:
    """The requests of one user that one process has admitted, by the process's clock."""

    window_s: float = WINDOW_S
    started: dict[str, float] = field(default_factory=dict)  # in the order of their start
    running: set[str] = field(default_factory=set)
    admitting: set[str] = field(default_factory=set)
    """Those of `running` that are not counted elsewhere yet."""

    def add(self, request_id: str, now: float) -> None:
        self.started[request_id] = now
        self.running.add(request_id)

    def undo(self, request_id: str) -> None:
        """The request does not count after all."""
        self.started.pop(request_id, None)
        self.running.discard(request_id)

    def use(self, quota: RequestQuota, now: float) -> RequestUse:
        passed = takewhile(lambda start: start[1] + self.window_s <= now, self.started.items())
        for request_id, _ in list(passed):
            del self.started[request_id]
        count, room_in_s, clear_in_s = len(self.started), 0.0, 0.0
        if count:
            clear_in_s = next(reversed(self.started.values())) + self.window_s - now
        if quota.requests_per_minute is not None and count >= quota.requests_per_minute:
            excess = count - quota.requests_per_minute
            room_in_s = next(islice(self.started.values(), excess, None)) + self.window_s - now
        return RequestUse(count, len(self.running), room_in_s, clear_in_s)

    def idle(self, now: float) -> bool:
        """Nothing counts any more."""
        return not self.running and self.use(RequestQuota(), now).started == 0
