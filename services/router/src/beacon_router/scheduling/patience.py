"""When a head had better wait for a backend that holds its model than force a load."""

from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

from beacon_router.scheduling.averages import Durations
from beacon_router.scheduling.crowd import Crowd
from beacon_router.scheduling.decisions import Health
from beacon_router.scheduling.lanes import Lane
from beacon_router.scheduling.machines import Backend, Region
from beacon_router.scheduling.placing import place
from beacon_router.scheduling.topology import Policy

if TYPE_CHECKING:
    from beacon_router.scheduling.fleet import Fleet

_CLOSED: Final = Health.CLOSED
"""Asking an enum for a member costs as much as a call, and these are asked for in every decision."""

TOGETHER: Final = 4
"""So many loads, for each that one may wait by itself, those may who wait for a model together."""


class Allowance(NamedTuple):
    """How long a head may stand aside: set when it first does, and kept."""

    until: float
    weight: float
    """What those who wait for its model may weigh, for each GPU that they would have."""


class Hope(NamedTuple):
    """What all those hope for who wait for a model."""

    soonest: float
    """When a backend that holds it is expected to be free."""
    unsure: bool
    """That is now, as long as nobody takes the token that it needs."""
    gpus: int
    """That they would have with one more."""
    crowd: Crowd | None
    """These, if nobody else would use that one meanwhile."""


def allowance(
    now: float, patience: float, *, load_s: float, reload_s: float | None, rested: float, bound: float
) -> Allowance:
    """Of a head that could force a load now on a backend that has rested since then.

    A load costs its own time and the return of the model that has to go for it; None: nothing has to. Where
    nothing runs for `patience` times that, and where nothing has to go, nobody else needs the backend: then
    only a load is saved.
    """
    until = now + load_s
    if reload_s is not None:
        until = max(until, rested + patience * (load_s + reload_s))
    return Allowance(min(until, bound), TOGETHER * patience * load_s)


def stand_aside(allowed: list[Allowance], hope: Hope) -> float | None:
    """How long those do who are allowed so much; None: what they hope for comes too late for one of them."""
    until = weight = inf
    for own_until, own_weight in allowed:
        if own_until < until:  # noqa: PLR1730 - a call of `min` takes thrice as long
            until = own_until
        if own_weight < weight:  # noqa: PLR1730
            weight = own_weight
    if hope.crowd is not None:
        until = min(until, hope.crowd.weighs_at(weight * hope.gpus))
    return until if hope.soonest < until else None


class Patience:
    """A head stands aside as long as a backend that holds its model is expected to be free before its
    allowance ends: by the clock, or, beside a backend that idles, because too many wait with it."""

    __slots__ = ("_durations", "_policy", "ends")

    def __init__(self, policy: Policy, durations: Durations) -> None:
        self._policy = policy
        self._durations = durations
        self.ends: dict[Fleet, float] = {}
        """By fleet with free slots and nobody but those who stand aside: when the first of them stops."""

    def over(self, now: float) -> Sequence["Fleet"]:
        """The fleets in which somebody's patience has ended by now."""
        if not self.ends:
            return ()
        fleets = [fleet for fleet, end in self.ends.items() if end <= now]
        for fleet in fleets:
            del self.ends[fleet]
        return fleets

    def next_end(self) -> float | None:
        return min(self.ends.values(), default=None)

    def hope(self, region: Region, model: str, now: float, crowd: Crowd | None = None) -> Hope:
        """Of those who wait for the model: for the backends that hold it and take work, now or later."""
        soonest, gpus = inf, 1
        for holder in region.holders[model]:
            if holder.health is _CLOSED and ((free_at := holder.free_at) or holder.may_start):
                gpus += 1
                soonest = min(soonest, free_at)
        return Hope(max(now, soonest), soonest == 0.0, gpus, crowd)

    def aside_until(self, lanes: list[Lane], hope: Hope, free: list[Backend], now: float) -> float | None:
        """How long the heads of lanes of one model wait together for another backend, rather than that one of
        them is loaded on one that is free; None: not."""
        if hope.soonest == inf:
            return None
        allowed = [lane.head.allowance or self._allowance(lane, free, now) for lane in lanes]
        until = stand_aside(allowed, hope)
        if until is not None:
            for lane, own in zip(lanes, allowed, strict=True):
                lane.head.allowance = own
        return until

    def _allowance(self, lane: Lane, free: list[Backend], now: float) -> Allowance:
        policy, loads_s = self._policy, self._durations.loads
        backend = place(lane.model, free)
        full = len(backend.loaded) >= backend.spec.loaded_models
        return allowance(
            now,
            policy.patience,
            load_s=loads_s.of(lane.model),
            reload_s=loads_s.of(backend.loaded[0]) if full else None,
            rested=backend.rested,
            bound=lane.head.arrived + policy.tiers[lane.rank].starvation_bound_s,
        )
