"""The rules of docs/scheduling.md in the slowest and plainest way: look at everybody, every time."""

from collections import Counter
from math import lcm

from beacon_router.scheduling import (
    Decision,
    Expired,
    Health,
    LimitName,
    Policy,
    Reason,
    RequestId,
    Start,
    Topology,
)
from benchmarks.scheduling.world import FleetKey, Machine, Queue, Waiting, World

_EXPRESS = {
    Queue.GLOBAL_RETRY: Reason.GLOBAL_RETRY,
    Queue.REGION_RETRY: Reason.REGION_RETRY,
    Queue.FRONT: Reason.FRONT,
}
Choice = tuple[Waiting, Machine, Reason, bool]


class Turns:
    """Each turn costs lcm / weight; who has paid least goes first, the lighter weight when equal."""

    def __init__(self, policy: Policy) -> None:
        weights = [tier.weight for tier in policy.tiers]
        self._price = [lcm(*weights) / weight for weight in weights]
        self._paid = [0.0 for _ in weights]
        self._reached = 0.0

    def choose(self, ranks: set[int]) -> int:
        return min(ranks, key=lambda rank: (max(self._paid[rank], self._reached), -self._price[rank], -rank))

    def take(self, rank: int) -> None:
        self._reached = max(self._paid[rank], self._reached)
        self._paid[rank] = self._reached + self._price[rank]


class Reference:
    def __init__(self, topology: Topology, policy: Policy) -> None:
        self.world = World(topology, policy)
        self._policy = policy
        self._express_run: Counter[FleetKey] = Counter()
        self._turns = {machine.fleet: Turns(policy) for machine in self.world.machines.values()}
        self._batch: Counter[FleetKey] = Counter()
        self._last_of_fleet: Counter[FleetKey] = Counter()
        self._last_of_limit: Counter[tuple[LimitName, str]] = Counter()
        self._dispatches = 0
        self.freed: list[LimitName] = []
        """Limits of which a token came back since the last `next`, in order."""

    def next(self, now: float) -> list[Decision]:
        decisions: list[Decision] = [Expired(request) for request in self._expire(now)]
        regions = self._regions_in_turn()
        while regions:
            regions = [region for region in regions if self._dispatch(now, region, decisions)]
        self.freed = []
        return decisions

    def position(self, request: RequestId) -> int:
        """1 + how many go before it among those that compete for the same backends."""
        mine = self.world.waiting[request]
        others = self.world.waiting.values()
        if mine.queue is Queue.GLOBAL_RETRY:
            return 1 + sum(one.queue is mine.queue and one.number < mine.number for one in others)
        rivals = self._rivals(mine.region, mine.request.model)
        served = any(mine.region == region and models & rivals for region, models in self._turns)
        before = 0
        for one in others:
            moving = one.queue is Queue.GLOBAL_RETRY and one.request.model in rivals and served
            at_home = one.queue is not Queue.GLOBAL_RETRY and one.region == mine.region
            if moving or (at_home and one.request.model in rivals and _line(one) < _line(mine)):
                before += 1
        return 1 + before

    def _rivals(self, region: str, model: str) -> set[str]:
        """Models of the region that share a backend with this one, directly or through others."""
        sets = [
            set(machine.spec.models)
            for machine in self.world.machines.values()
            if machine.spec.region == region
        ]
        served = set().union(*sets) if sets else set()
        if model not in served:
            return set(self.world.models) - served
        rivals = {model}
        while any(rivals & models and not models <= rivals for models in sets):
            rivals |= {other for models in sets if rivals & models for other in models}
        return rivals

    def _expire(self, now: float) -> list[RequestId]:
        due = [
            (waiting.request.start_by, waiting.number, waiting.request.id)
            for waiting in self.world.waiting.values()
            if waiting.request.start_by is not None and waiting.request.start_by <= now
        ]
        for _, _, request in due:
            self.world.leaves(request)
        return [request for _, _, request in sorted(due)]

    def _regions_in_turn(self) -> list[str]:
        return sorted(
            self.world.concurrency,
            key=lambda region: [self._last_of_limit[limit, region] for limit in dict.fromkeys(self.freed)],
        )

    def _dispatch(self, now: float, region: str, decisions: list[Decision]) -> bool:
        fleets = dict.fromkeys(
            machine.fleet for machine in self.world.machines.values() if machine.spec.region == region
        )
        for fleet in sorted(fleets, key=lambda fleet: self._last_of_fleet[fleet]):
            choice = self._choose(now, fleet)
            if choice is not None:
                decisions.append(self._start(now, choice))
                return True
        return False

    def _choose(self, now: float, fleet: FleetKey) -> Choice | None:
        free = [
            machine
            for machine in self.world.machines.values()
            if machine.fleet == fleet and self.world.usable(machine)
        ]
        if not free:
            return None
        free.sort(key=lambda machine: machine.in_line or 0)
        heads = self.world.heads(free[0])
        overdue = [head for head in heads if self.world.overdue(head, now)]
        if not overdue or self._express_run[fleet] < self._policy.express_limit:
            express = [head for head in heads if head.queue is not Queue.MAIN]
            if express:
                first = min(express, key=lambda head: (head.queue, head.number))
                return first, self._place(first, free), _EXPRESS[first.queue], False
        if overdue:
            return self._starvation(fleet, overdue, free)
        main = sorted((head for head in heads if head.queue is Queue.MAIN), key=lambda head: head.place)
        return self._affinity(now, main, free) or self._order(now, main, free)

    def _starvation(self, fleet: FleetKey, overdue: list[Waiting], free: list[Machine]) -> Choice:
        rank = self._turns[fleet].choose({head.request.rank for head in overdue})
        turn = min((head for head in overdue if head.request.rank == rank), key=lambda head: head.number)
        machine = self._place(turn, free)
        if turn.request.model not in machine.loaded:
            loaded = self._loaded(sorted(overdue, key=lambda head: head.place), free)
            if loaded is not None:
                return *loaded, Reason.STARVATION, True
        return turn, machine, Reason.STARVATION, False

    def _affinity(self, now: float, main: list[Waiting], free: list[Machine]) -> Choice | None:
        safe: list[tuple[Waiting, Machine]] = []
        for machine in free:
            left = self._policy.batch_limit - self._batch[machine.fleet]
            for model in machine.loaded:
                mine = [head for head in main if head.request.model == model]
                if left < 1 or not mine:
                    continue
                if mine[0] is main[0] or not self.world.endangers(machine, mine[0], main[0], left, now):
                    safe.append((mine[0], machine))
        if not safe:
            return None
        head, machine = min(safe, key=lambda pair: pair[0].place)
        first = head is main[0]
        return head, machine, Reason.ORDER if first else Reason.AFFINITY, not first

    def _order(self, now: float, main: list[Waiting], free: list[Machine]) -> Choice | None:
        pairs = ((head, machine) for head in main for machine in free)
        loaded = next((pair for pair in pairs if pair[0].request.model in pair[1].loaded), None)
        for head in main:
            if loaded is not None and head is loaded[0]:
                return *loaded, Reason.ORDER, False
            model = head.request.model
            machine = self._place(head, free)
            if model in machine.loaded:
                return head, machine, Reason.ORDER, False
            together = [head] if loaded else [other for other in main if other.request.model == model]
            if not self._stand_aside(now, together, machine, loaded):
                return head, machine, Reason.ORDER, False
            if loaded is not None:
                return *loaded, Reason.ORDER, False
        return None

    def _stand_aside(
        self, now: float, heads: list[Waiting], machine: Machine, loaded: tuple[Waiting, Machine] | None
    ) -> bool:
        """All these, who wait for one model, or none."""
        allowed = [self._allowed(now, head, machine, loaded) for head in heads]
        if None in allowed:
            return False
        for head, allowance in zip(heads, allowed, strict=True):
            head.allowance = allowance
        return True

    def _allowed(
        self, now: float, head: Waiting, machine: Machine, loaded: tuple[Waiting, Machine] | None
    ) -> tuple[float, float] | None:
        if loaded is not None:
            other, its_machine = loaded
            if self.world.endangers(its_machine, other, head, 1, now):
                return None
        model = head.request.model
        holders = self.world.holders(machine.spec.region, model)
        moments = [self._free_at(holder) for holder in holders if self._will_take(holder)]
        if not moments:
            return None
        until, weight = head.allowance or self._allowance(now, head, machine)
        pace, begun = self.world.crowd(machine, model)
        crowded = (weight * (len(moments) + 1) + begun) / pace
        if max(now, min(moments)) >= (min(until, crowded) if loaded is None else until):
            return None
        return until, weight

    def _allowance(self, now: float, head: Waiting, machine: Machine) -> tuple[float, float]:
        patience, loads_s = self._policy.patience, self.world.durations.loads
        load_s = loads_s.of(head.request.model)
        until = now + load_s
        if len(machine.loaded) >= machine.spec.loaded_models:
            until = max(until, machine.rested + patience * (load_s + loads_s.of(machine.loaded[0])))
        bound = head.arrived + self._policy.tiers[head.request.rank].starvation_bound_s
        return min(until, bound), 4 * patience * load_s

    def _will_take(self, machine: Machine) -> bool:
        if machine.health is not Health.CLOSED:
            return False
        busy = len(machine.runs) >= machine.spec.slots
        group = self.world.limits_of(machine.spec.name, "")
        return busy or all(self.world.used(limit) < self.world.held[limit] for limit in group)

    @staticmethod
    def _free_at(machine: Machine) -> float:
        if len(machine.runs) < machine.spec.slots:
            return 0.0
        return min(run.ends for run in machine.runs.values())

    def _loaded(self, heads: list[Waiting], free: list[Machine]) -> tuple[Waiting, Machine] | None:
        for head in heads:
            for machine in free:
                left = self._policy.batch_limit - self._batch[machine.fleet]
                if left > 0 and head.request.model in machine.loaded:
                    return head, machine
        return None

    def _place(self, head: Waiting, free: list[Machine]) -> Machine:
        return min(free, key=lambda machine: (machine.health is not Health.CLOSED, self._harm(head, machine)))

    def _harm(self, head: Waiting, machine: Machine) -> int:
        if head.request.model in machine.loaded:
            return 0
        if len(machine.loaded) < machine.spec.loaded_models:
            return 1
        holders = self.world.holders(machine.spec.region, machine.loaded[0])
        return 2 if len(holders) > 1 else 3

    def _start(self, now: float, choice: Choice) -> Start:
        head, machine, reason, jumps = choice
        name, fleet, region = machine.spec.name, machine.fleet, machine.spec.region
        self._dispatches += 1
        self._last_of_fleet[fleet] = self._dispatches
        if head.queue is Queue.MAIN:
            self._express_run[fleet] = 0
            self._batch[fleet] = self._batch[fleet] + 1 if jumps else 0
            if reason is Reason.STARVATION and not jumps:
                self._turns[fleet].take(head.request.rank)
        else:
            self._express_run[fleet] += 1
        for limit in self.world.limits_of(name, head.request.model):
            self._last_of_limit[limit, region] = self._dispatches
        moved = region != head.request.region
        start = Start(head.request.id, name, region, head.request.model not in machine.loaded, reason, moved)
        self.world.starts(now, start)
        return start


def _line(waiting: Waiting) -> tuple[int, int, int]:
    rank = waiting.request.rank if waiting.queue is Queue.MAIN else 0
    return (waiting.queue, rank, waiting.number)
