"""When a head had better wait for a backend that holds its model than force a load."""

from collections.abc import Iterable
from heapq import heappop, heappush

from beacon_router.core.averages import Durations
from beacon_router.core.decisions import Health
from beacon_router.core.lanes import Lane, Ticket
from beacon_router.core.machines import Backend


class Patience:
    """A load costs its own time and, later, the return of the model that has to go for it.

    A head stands aside as long as a backend that holds its model is expected to be free before that much time
    has passed since it first could have forced a load. So it never loses more than a load would have cost.
    """

    __slots__ = ("_durations", "_ends", "_factor")

    def __init__(self, factor: float, durations: Durations) -> None:
        self._factor = factor
        self._durations = durations
        self._ends: list[tuple[float, int, Ticket]] = []

    def over(self, now: float) -> list[Lane]:
        """The lanes with a head whose patience has ended by now."""
        lanes: list[Lane] = []
        while self._ends and self._ends[0][0] <= now:
            lane = heappop(self._ends)[2].lane
            if lane is not None:
                lanes.append(lane)
        return lanes

    def next_end(self) -> float | None:
        while self._ends and self._ends[0][2].lane is None:
            heappop(self._ends)
        return self._ends[0][0] if self._ends else None

    def stands_aside(self, lane: Lane, backend: Backend, waits: dict[str, list[float]], now: float) -> bool:
        """Whether the lane's head waits for another backend rather than be loaded on this one.

        `waits` belongs to one decision: the second head of a model waits for the second backend that is free.
        """
        model, ticket = lane.model, lane.head
        soonest = waits.get(model)
        if soonest is None:
            soonest = waits[model] = _waits(backend.fleet.region.holders[model], now)
        if not soonest:
            return False
        until = ticket.patient_until
        if until is None:
            until = self._until(model, backend, now)
        if now + soonest[-1] >= until:
            return False
        soonest.pop()
        if ticket.patient_until is None:
            ticket.patient_until = until
            heappush(self._ends, (until, ticket.seq, ticket))
        return True

    def _until(self, model: str, backend: Backend, now: float) -> float:
        """The end of the patience of somebody who could load the model on this backend now."""
        cost_s = self._durations.loads[model].value
        if len(backend.loaded) >= backend.spec.loaded_models:
            cost_s += self._durations.loads[backend.loaded[0]].value
        return now + self._factor * cost_s


def _waits(holders: Iterable[Backend], now: float) -> list[float]:
    """Seconds until these backends are expected to be free, the soonest last."""
    waits = [holder.free_in(now) for holder in holders if holder.health is Health.CLOSED]
    if len(waits) > 1:
        waits.sort(reverse=True)
    return waits
