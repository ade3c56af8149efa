"""When a head had better wait for a backend that holds its model than force a load."""

from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Final

from beacon_router.core.averages import Durations
from beacon_router.core.decisions import Health
from beacon_router.core.lanes import Lane, Ticket
from beacon_router.core.machines import Backend
from beacon_router.core.topology import Policy

_CLOSED: Final = Health.CLOSED
"""Asking an enum for a member costs as much as a call, and these are asked for in every decision."""


class Patience:
    """A load costs its own time and, later, the return of the model that has to go for it.

    A head stands aside as long as a backend that holds its model is expected to be free before that much time
    has passed since it first could have forced a load. So it never loses more than a load would have cost,
    and it never waits past its bound.
    """

    __slots__ = ("_durations", "_policy", "ends")

    def __init__(self, policy: Policy, durations: Durations) -> None:
        self._policy = policy
        self._durations = durations
        self.ends: list[tuple[float, int, Ticket]] = []

    def over(self, now: float) -> list[Lane]:
        """The lanes with a head whose patience has ended by now."""
        lanes: list[Lane] = []
        while self.ends and self.ends[0][0] <= now:
            lane = heappop(self.ends)[2].lane
            if lane is not None:
                lanes.append(lane)
        return lanes

    def next_end(self) -> float | None:
        while self.ends and self.ends[0][2].lane is None:
            heappop(self.ends)
        return self.ends[0][0] if self.ends else None

    def stands_aside(self, lane: Lane, backend: Backend, claims: dict[str, list[float]], now: float) -> bool:
        """Whether the lane's head waits for another backend rather than be loaded on this one.

        `claims` belongs to one decision: the second head of a model waits for the second backend to be free.
        """
        model, ticket = lane.model, lane.head
        soonest = claims.get(model)
        if soonest is None:
            soonest = claims[model] = _free_at(backend.fleet.region.holders[model])
        if not soonest:
            return False
        until = ticket.patient_until
        if until is None:
            until = self._until(lane, backend, now)
        if max(soonest[-1], now) >= until:
            return False
        soonest.pop()
        if ticket.patient_until is None:
            ticket.patient_until = until
            heappush(self.ends, (until, ticket.seq, ticket))
        return True

    def _until(self, lane: Lane, backend: Backend, now: float) -> float:
        """The end of the patience of a head that could force a load on this backend now."""
        cost_s = self._durations.loads.of(lane.model)
        if len(backend.loaded) >= backend.spec.loaded_models:
            cost_s += self._durations.loads.of(backend.loaded[0])
        bound = lane.head.arrived + self._policy.tiers[lane.rank].starvation_bound_s
        return min(now + self._policy.patience * cost_s, bound)


def _free_at(holders: Iterable[Backend]) -> list[float]:
    """The moments at which these backends are expected to take work, the soonest last."""
    moments = [
        holder.free_at
        for holder in holders
        if holder.health is _CLOSED and (holder.free_at or holder.may_start)
    ]
    if len(moments) > 1:
        moments.sort(reverse=True)
    return moments
