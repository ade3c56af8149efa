"""Position and wait of a job from counts: what is ahead of it in the runner's queue and at a router."""

from bisect import bisect_right
from collections.abc import Mapping
from itertools import accumulate
from typing import NamedTuple

from beacon_contracts.router_status import STARTING, QueueStatus
from beacon_contracts.tiers import Tier


class WaitEstimate(NamedTuple):
    """`position` 1 is next. `reason` is set when there is no estimate of the wait."""

    position: int | None = None
    wait_s: float | None = None
    reason: str | None = None


class QueueAhead(NamedTuple):
    """What is served before a job in the runner's queue: jobs of the same lane, and others."""

    own: int = 0
    others: int = 0


class EstimateTarget(NamedTuple):
    """The first execution of a job, as a router sees it. `tiers`: its own, after those of higher priority."""

    model: str
    region: str
    tiers: tuple[Tier, ...]
    user: str
    movable: bool = True
    exclusive: bool = False


def jobs_ahead(front: int, pending: Mapping[str, int], lane: str) -> QueueAhead:
    """What is served before a job that joins the lane now.

    `front` and `pending` (by lane) are the counts of its class. Lanes are served round-robin, so each other
    lane contributes at most as many jobs as are served of the own lane.
    """
    own = pending.get(lane, 0)
    others = sum(min(count, own + 1) for other, count in pending.items() if other != lane)
    return QueueAhead(own, front + others)


def sooner(one: WaitEstimate | None, other: WaitEstimate | None) -> WaitEstimate | None:
    """The estimate with the shorter wait; the first one of equals."""
    if one is None or other is None:
        return one or other
    return other if (other.wait_s or 0.0) < (one.wait_s or 0.0) else one


class RouterForecast:
    """The forecast of one router: what a new user and the next request of another one wait, and the pace."""

    def __init__(self, queues: QueueStatus) -> None:
        self._queues = queues
        self._users: dict[tuple[str, Tier], _WaitingUsers] = {}

    def estimate(self, target: EstimateTarget, here: QueueAhead) -> WaitEstimate | None:
        """In its region, or for movable work in the best of the others; None when no backend can run it."""
        regions = self._queues.regions
        if target.region in regions and target.model in regions[target.region].forecast:
            return self._in_region(target.region, target, here)
        best: WaitEstimate | None = None
        for name in regions if target.movable else ():
            if target.model in regions[name].forecast:
                best = sooner(best, self._in_region(name, target, here))
        return best

    def position(self, target: EstimateTarget, here: QueueAhead) -> int:
        """While nothing can run it: behind all that waits for its region in its tier and in higher ones."""
        region, waiting = self._queues.regions.get(target.region), 0
        if region is not None and target.exclusive:
            waiting = region.by_model.get(target.model, 0)
        elif region is not None:
            waiting = sum(region.by_tier.get(tier, 0) for tier in target.tiers)
        return waiting + here.own + here.others + 1

    def requests_of(self, user: str) -> int:
        """That wait or run there."""
        return sum(region.requests_by_user.get(user, 0) for region in self._queues.regions.values())

    def starts(self, target: EstimateTarget) -> bool:
        """Whether a backend that could run it is starting."""
        return any(
            backend.breaker.state == STARTING and target.model in backend.models
            for name, region in self._queues.regions.items()
            if target.movable or name == target.region
            for backend in region.backends
        )

    def _in_region(self, name: str, target: EstimateTarget, here: QueueAhead) -> WaitEstimate:
        forecast, tier = self._queues.regions[name].forecast[target.model], target.tiers[-1]
        users = self._queues.users.get(name, {}).get(tier, {})
        # The forecast of the requests of its user that wait there and compete with it.
        own = (users.get(target.user) or users.get("") or {}).get(target.model)
        ahead = self._ahead(name, target, here)
        if own is None:
            more = ahead - self._ahead(name, target, QueueAhead())
            wait_s = forecast.wait_s.get(tier, 0.0)
            if more >= forecast.free:
                wait_s += forecast.then_s + forecast.pace_s * (more - forecast.free)
        else:
            wait_s = own.next_s + own.pace_s * here.own + forecast.pace_s * here.others
        return WaitEstimate(ahead + 1, round(wait_s, 2))

    def _ahead(self, name: str, target: EstimateTarget, here: QueueAhead) -> int:
        region = self._queues.regions[name]
        if target.exclusive:  # competes only with itself
            return region.by_model.get(target.model, 0) + here.own + here.others
        *above, tier = target.tiers
        higher = sum(region.by_tier.get(tier, 0) for tier in above)
        same = self._waiting_users(name, tier).before(target.user, here.own)
        return higher + same + here.others

    def _waiting_users(self, region: str, tier: Tier) -> "_WaitingUsers":
        if (region, tier) not in self._users:
            users = self._queues.users.get(region, {}).get(tier, {})
            waiting = {name: sum(one.waiting for one in models.values()) for name, models in users.items()}
            self._users[region, tier] = _WaitingUsers(waiting)
        return self._users[region, tier]


class _WaitingUsers:
    """Users share a tier: until a request starts, each other user starts as many requests as its user does.

    The requests under the empty name are in the order of arrival: all are before a new one.
    """

    def __init__(self, waiting: Mapping[str, int]) -> None:
        self._waiting = waiting
        self._counts = sorted(waiting.values())
        self._sums = [0, *accumulate(self._counts)]

    def before(self, user: str, unsent: int) -> int:
        """What starts before a new request of the user, who has so many others that wait at the runner."""
        own = unsent + self._waiting.get(user, 0) + (self._waiting.get("", 0) if user else 0)
        turns = own + 1
        few = bisect_right(self._counts, turns)
        every = self._sums[few] + turns * (len(self._counts) - few)
        others = every - sum(min(self._waiting.get(name, 0), turns) for name in {user, ""})
        return own + others
