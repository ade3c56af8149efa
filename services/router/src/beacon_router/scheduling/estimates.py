"""When a waiting request will start: rehearsed by the scheduler's rules, corrected by past errors."""

from collections.abc import Collection

from beacon_router.scheduling.decisions import Eta
from beacon_router.scheduling.floor import Floor
from beacon_router.scheduling.hindsight import Hindsight
from beacon_router.scheduling.lanes import Lane, Queue, Ticket
from beacon_router.scheduling.pools import Pool
from beacon_router.scheduling.queues import Queues
from beacon_router.scheduling.rehearsal import Rehearsal

_FRESH_S, _FRESH_SHARE = 0.05, 0.02
"""A rehearsal is good for so long, and for so much of what it foretells."""
_LONG = 50
"""A rehearsal of so many dispatches is dear."""


class Estimator:
    __slots__ = ("_floor", "_hindsight", "_queues", "_rehearsals", "ranks")

    def __init__(self, floor: Floor, queues: Queues) -> None:
        self._floor = floor
        self._queues = queues
        self.ranks = len(floor.policy.tiers)
        self._hindsight = Hindsight(self.ranks + 1)
        self._rehearsals: dict[Pool, Rehearsal] = {}

    def of_waiting(self, now: float, ticket: Ticket, lane: Lane) -> Eta:
        expected_s = self._expected(now, ticket, lane)
        if ticket.foretold is None:
            ticket.foretold = (now, expected_s)
        return Eta(*self._hindsight.corrected(self._kind(lane), expected_s))

    def of_new(self, now: float, model: str, region: str, rank: int) -> Eta:
        pool = self._floor.pool(region, model)
        expected_s = self._rehearsal(now, pool).start_of_new(rank) - now
        return Eta(*self._hindsight.corrected(rank, max(0.0, expected_s)))

    def started(self, now: float, foretold: tuple[float, float], lane: Lane) -> None:
        """What was foretold can be compared with what came."""
        asked, expected_s = foretold
        self._hindsight.learn(self._kind(lane), expected_s, now - asked)

    def forget(self) -> None:
        """Backends came or went."""
        self._rehearsals.clear()

    def _kind(self, lane: Lane) -> int:
        return lane.rank if lane.queue is Queue.MAIN else self.ranks

    def _expected(self, now: float, ticket: Ticket, lane: Lane) -> float:
        """By the pool in which it starts first."""
        pools = {fleet.pool: None for fleet in lane.fleets} or {lane.pool: None}
        ahead = self._queues.ahead(ticket, lane)
        starts = [self._rehearsal(now, pool, ticket.seq).start_of(ticket, lane, ahead) for pool in pools]
        return max(0.0, min(starts) - now)

    def _rehearsal(self, now: float, pool: Pool, last: int = 0) -> Rehearsal:
        """One in which those up to the number `last` play, as far as that is not asked too often."""
        kept = self._rehearsals.get(pool)
        if kept is not None and _fresh(now, pool.changes - kept.changes, kept, last):
            return kept
        made = Rehearsal(now, pool, self._floor.policy, _lanes(pool), self._queues.last)
        self._rehearsals[pool] = made
        return made


def _fresh(now: float, changes: int, kept: Rehearsal, last: int) -> bool:
    """Whether nothing has changed, or little for those who play in it; long ones are made again later."""
    age_s = now - kept.made
    if age_s <= _FRESH_S:
        return changes == 0 or kept.dispatches >= _LONG
    few = changes <= _FRESH_SHARE * kept.dispatches
    return last <= kept.last and few and age_s <= _FRESH_SHARE * (kept.ended - kept.made)


def _lanes(pool: Pool) -> Collection[Lane]:
    return dict.fromkeys(lane for fleet in pool.fleets for lane in fleet.lanes())
