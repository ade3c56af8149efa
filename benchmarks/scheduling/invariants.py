"""What must be true of every decision, stated once: for tests, broken schedulers and the simulator."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from enum import StrEnum

from beacon_router.scheduling import (
    Decision,
    Expired,
    Health,
    LimitName,
    Outcome,
    Policy,
    Reason,
    Request,
    RequestId,
    Start,
    Topology,
)
from beacon_router.scheduling.bounds import dispatches_until_served
from benchmarks.scheduling.world import FleetKey, Machine, Queue, Waiting, World

_QUEUE_OF = {
    Reason.GLOBAL_RETRY: Queue.GLOBAL_RETRY,
    Reason.REGION_RETRY: Queue.REGION_RETRY,
    Reason.FRONT: Queue.FRONT,
}


class Rule(StrEnum):
    """The invariants, by name."""

    NO_LOSS = "no loss"
    """Everything accepted waits, runs, or has ended in one way."""
    NO_DUPLICATE = "no duplicate"
    """Nothing starts or expires twice."""
    EXPIRY = "expiry"
    """What has a `start_by` expires when it comes, not before and not after."""
    PLACE = "place"
    """A request runs on a backend that serves its model."""
    MOVED = "moved"
    """A start says whether its region is the one that was asked for."""
    PINNED = "pinned"
    """A pinned request never moves."""
    REGION = "region"
    """A retry goes elsewhere while it can; others leave home only when nothing healthy is there."""
    LOAD = "load"
    """A start says whether the backend has to load the model."""
    BREAKER = "breaker"
    """An open breaker lets nothing through, a half-open one a single probe."""
    SLOTS = "slots"
    """Slots are never exceeded,"""
    CONCURRENCY = "concurrency"
    """nor is what a region may run at once,"""
    LIMIT = "limit"
    """nor is the held share of a group's cap or of a model's limit."""
    EXCLUSIVE = "exclusive"
    """An exclusive model runs once in a region."""
    FIFO = "fifo"
    """Within a region, tier and model the order is arrival."""
    EXPRESS_FIRST = "express first"
    """Global retry, region retry and paid front go before the rest,"""
    EXPRESS_ORDER = "express order"
    """in this order, by arrival,"""
    EXPRESS_LIMIT = "express limit"
    """and no more than the limit in a row while a head is past its bound."""
    STARVATION_FIRST = "starvation first"
    """Heads past their bound go before the others,"""
    STARVATION_ORDER = "starvation order"
    """the oldest of a tier first, unless another needs no load,"""
    STARVATION_BOUND = "starvation bound"
    """and a tier's head waits for no more dispatches than docs/scheduling.md says."""
    BATCH_LIMIT = "batch limit"
    """No more than a batch of a fleet goes before others because its model is loaded,"""
    AFFINITY_ENDANGERS = "affinity endangers"
    """and the first of the line does not wait past its bound because of it."""
    ORDER = "order"
    """Otherwise by rank and arrival: nobody else passes a first of the line that does not stand aside,"""
    PATIENCE = "patience"
    """and it does so for a loaded backend, for so many loads, beside an idle one until so many wait."""
    IDLE_SLOT = "idle slot"
    """No slot is idle while somebody who does not stand aside could use it,"""
    AT_ONCE = "at once"
    """and never while a retry or a paid front could."""


class Violation(AssertionError):  # noqa: N818 - it is what it is
    """A rule was broken."""

    def __init__(self, rule: Rule, detail: str) -> None:
        super().__init__(f"{rule}: {detail}")
        self.rule = rule


class Watch:
    """Is told every fact and every decision, and raises `Violation` at the first that must not be."""

    def __init__(self, topology: Topology, policy: Policy) -> None:
        self.world = World(topology, policy)
        self.worst: dict[int, int] = {}
        """Per rank, the most dispatches that a tier's head past its bound has seen, its own included."""
        self._policy = policy
        self._express_run: Counter[FleetKey] = Counter()
        self._jumps: Counter[FleetKey] = Counter()
        self._passed: dict[RequestId, Counter[FleetKey]] = defaultdict(Counter)
        self._aside_since: dict[RequestId, float] = {}
        longest = max((model.expected_load_s for model in topology.models), default=0.0)
        self._longest_load_s = longest

    # Facts that need more than the world

    def submitted(self, now: float, request: Request) -> None:
        self.world.submitted(now, request)

    def retried(self, now: float, request: Request, failed_in: str) -> None:
        self.world.retried(now, request, failed_in)

    def cancelled(self, request: RequestId) -> None:
        self.world.leaves(request)

    def moved_to_front(self, request: RequestId) -> None:
        self.world.moved_to_front(request)

    def finished(
        self, now: float, request: RequestId, outcome: Outcome, load_s: float | None, run_s: float | None
    ) -> None:
        self._longest_load_s = max(self._longest_load_s, load_s or 0.0)
        self.world.finished(now, request, outcome, load_s, run_s)

    def capacity_is(self, limit: LimitName, held: int) -> None:
        self.world.held[limit] = held

    # Decisions

    def decided(self, now: float, decisions: Sequence[Decision], *, waiting: int, running: int) -> None:
        """The answer of `next`, and how much the scheduler says waits and runs after it."""
        for decision in decisions:
            if isinstance(decision, Expired):
                self._expired(now, decision)
            else:
                self._started(now, decision)
        self._settled(now)
        if waiting != len(self.world.waiting) or running != len(self.world.running):
            raise Violation(
                Rule.NO_LOSS,
                f"{waiting} wait and {running} run, but {len(self.world.waiting)} and "
                f"{len(self.world.running)} should",
            )

    def _expired(self, now: float, decision: Expired) -> None:
        if decision.id not in self.world.waiting:
            raise Violation(Rule.NO_DUPLICATE, f"{decision.id} expired, but does not wait")
        start_by = self.world.leaves(decision.id).request.start_by
        if start_by is None or start_by > now:
            raise Violation(Rule.EXPIRY, f"{decision.id} may wait until {start_by}, and it is {now}")

    def _started(self, now: float, start: Start) -> None:
        waiting = self.world.waiting.get(start.id)
        if waiting is None:
            raise Violation(Rule.NO_DUPLICATE, f"{start.id} started, but does not wait")
        machine = self.world.machines[start.backend]
        self._check_place(start, waiting, machine)
        self._check_limits(waiting, machine)
        heads = self.world.heads(machine)
        self._check_fifo(waiting, heads)
        self._check_precedence(now, start, waiting, heads, machine)
        self._count_dispatch(now, waiting, heads, machine)
        self._remember(start, waiting, heads, machine, now)
        self.world.starts(now, start)

    def _check_place(self, start: Start, waiting: Waiting, machine: Machine) -> None:
        request = waiting.request
        if machine.spec.region != start.region or request.model not in machine.spec.models:
            raise Violation(Rule.PLACE, f"{start.id} cannot run on {start.backend} in {start.region}")
        if start.moved != (start.region != request.region):
            raise Violation(Rule.MOVED, f"{start.id} says moved={start.moved} in {start.region}")
        if request.pinned and start.region != request.region:
            raise Violation(Rule.PINNED, f"{start.id} belongs in {request.region}, not in {start.region}")
        if not self.world.may_run_in(waiting, start.region):
            raise Violation(Rule.REGION, f"{start.id} may not run in {start.region} now")
        if start.needs_load == (request.model in machine.loaded):
            raise Violation(Rule.LOAD, f"{start.id} says needs_load={start.needs_load} on {start.backend}")

    def _check_limits(self, waiting: Waiting, machine: Machine) -> None:
        world, spec, model = self.world, machine.spec, waiting.request.model
        if machine.health is Health.OPEN or (machine.health is Health.HALF_OPEN and machine.probe):
            raise Violation(Rule.BREAKER, f"{spec.name} is {machine.health} and takes no more work")
        if len(machine.runs) >= spec.slots:
            raise Violation(Rule.SLOTS, f"{spec.name} has {spec.slots}, all busy")
        if len(world.runs_in(spec.region)) >= world.concurrency[spec.region]:
            raise Violation(Rule.CONCURRENCY, f"{spec.region} runs as much as it may")
        for limit in world.limits_of(spec.name, model):
            if world.used(limit) >= world.held[limit]:
                raise Violation(Rule.LIMIT, f"{limit} has {world.held[limit]}, all used")
        if world.models[model].exclusive and any(
            run.request.model == model for run in world.runs_in(spec.region)
        ):
            raise Violation(Rule.EXCLUSIVE, f"{model} runs in {spec.region} already")

    @staticmethod
    def _check_fifo(waiting: Waiting, heads: list[Waiting]) -> None:
        if waiting not in heads:
            raise Violation(Rule.FIFO, f"{waiting.request.id} is not the first of its lane")
        key = waiting.lane[:4]
        before = [head for head in heads if head.lane[:4] == key and head.number < waiting.number]
        if before:
            raise Violation(Rule.FIFO, f"{before[0].request.id} came before {waiting.request.id}")

    def _check_precedence(
        self, now: float, start: Start, waiting: Waiting, heads: list[Waiting], machine: Machine
    ) -> None:
        express = sorted(
            (head for head in heads if head.queue is not Queue.MAIN),
            key=lambda head: (head.queue, head.number),
        )
        overdue = [head for head in heads if self.world.overdue(head, now)]
        spent = self._express_run[machine.fleet] >= self._policy.express_limit
        if start.reason in _QUEUE_OF:
            if waiting is not express[0] or waiting.queue is not _QUEUE_OF[start.reason]:
                raise Violation(Rule.EXPRESS_ORDER, f"{express[0].request.id} goes before {start.id}")
            if overdue and spent:
                raise Violation(Rule.EXPRESS_LIMIT, f"{overdue[0].request.id} is past its bound")
            return
        if express and not (overdue and spent):
            raise Violation(Rule.EXPRESS_FIRST, f"{express[0].request.id} goes before {start.id}")
        if bool(overdue) != (start.reason is Reason.STARVATION) or (overdue and waiting not in overdue):
            raise Violation(Rule.STARVATION_FIRST, f"{start.id} as {start.reason}, {len(overdue)} overdue")
        self._check_line(now, start, waiting, heads, machine)

    def _check_line(
        self, now: float, start: Start, waiting: Waiting, heads: list[Waiting], machine: Machine
    ) -> None:
        before = [head for head in heads if head.queue is Queue.MAIN and head.place < waiting.place]
        if start.reason is Reason.AFFINITY:
            left = self._policy.batch_limit - self._jumps[machine.fleet]
            if start.needs_load or left < 1:
                raise Violation(Rule.BATCH_LIMIT, f"{start.id} on {start.backend}, batch left: {left}")
            first = min(before, key=lambda head: head.place)
            if self.world.endangers(machine, waiting, first, 1, now):
                raise Violation(Rule.AFFINITY_ENDANGERS, f"{start.id} on {start.backend}")
        elif start.reason is Reason.ORDER:
            self._check_stood_aside(start, before, machine)
        elif start.needs_load and any(head.request.rank == waiting.request.rank for head in before):
            raise Violation(
                Rule.STARVATION_ORDER, f"{start.id} is not the oldest of its tier and needs a load"
            )

    def _check_stood_aside(self, start: Start, before: list[Waiting], machine: Machine) -> None:
        """Who needs no load may go before the first if this stands aside; who needs one, if all before do."""
        before = sorted(before, key=lambda head: head.place)
        for head in before if start.needs_load else before[:1]:
            if not self._held_elsewhere(head, machine):
                raise Violation(Rule.ORDER, f"{head.request.id} goes before {start.id}")

    def _held_elsewhere(self, head: Waiting, machine: Machine) -> bool:
        return any(
            other is not machine and head.request.model in other.loaded and other.health is Health.CLOSED
            for other in self.world.machines.values()
            if other.spec.region == machine.spec.region
        )

    def _count_dispatch(self, now: float, waiting: Waiting, heads: list[Waiting], machine: Machine) -> None:
        """The bound of promise 6: a tier's head past its bound sees at most so many dispatches."""
        for rank in range(len(self._policy.tiers)):
            tier = [head for head in heads if head.queue is Queue.MAIN and head.request.rank == rank]
            oldest = min(tier, key=lambda head: head.number, default=None)
            if oldest is None or not self.world.overdue(oldest, now):
                continue
            passed = self._passed[oldest.request.id]
            passed[machine.fleet] += 1
            self.worst[rank] = max(self.worst.get(rank, 0), passed.total())
            bound = dispatches_until_served(self._policy, rank, len(passed))
            if passed.total() >= bound and oldest is not waiting:
                raise Violation(Rule.STARVATION_BOUND, f"{oldest.request.id} saw {passed.total()} dispatches")

    def _remember(
        self, start: Start, waiting: Waiting, heads: list[Waiting], machine: Machine, now: float
    ) -> None:
        self._passed.pop(start.id, None)
        self._aside_since.pop(start.id, None)
        if start.reason in _QUEUE_OF:
            self._express_run[machine.fleet] += 1
            return
        self._express_run[machine.fleet] = 0
        jumps = start.reason is Reason.AFFINITY or self._surely_jumps(waiting, heads, now)
        row = self._jumps[machine.fleet] = self._jumps[machine.fleet] + 1 if jumps else 0
        if row > self._policy.batch_limit:
            raise Violation(Rule.BATCH_LIMIT, f"{row} in a row, the last on {start.backend}")

    def _surely_jumps(self, waiting: Waiting, heads: list[Waiting], now: float) -> bool:
        """Past its bound, but somebody of its tier came before it: it goes first because it is loaded."""
        return self.world.overdue(waiting, now) and any(
            head.queue is Queue.MAIN
            and head.request.rank == waiting.request.rank
            and head.number < waiting.number
            for head in heads
        )

    # What must be true once all that can start has started

    def _settled(self, now: float) -> None:
        for waiting in self.world.waiting.values():
            if waiting.request.start_by is not None and waiting.request.start_by <= now:
                raise Violation(Rule.EXPIRY, f"{waiting.request.id} should have expired")
        for machine, head in self._could_start():
            if head.queue is not Queue.MAIN:
                raise Violation(Rule.AT_ONCE, f"{head.request.id} waits, {machine.spec.name} is free")
            if self.world.overdue(head, now):
                raise Violation(Rule.IDLE_SLOT, f"{head.request.id} is overdue, {machine.spec.name} is free")
            self._stands_aside(now, head, machine)

    def _could_start(self) -> Iterator[tuple[Machine, Waiting]]:
        for machine in self.world.machines.values():
            if self.world.usable(machine):
                for head in self.world.heads(machine):
                    yield machine, head

    def _stands_aside(self, now: float, head: Waiting, machine: Machine) -> None:
        """Only for a backend that holds its model, for no more loads than may be, and not if too many do."""
        name = head.request.id
        if not self._held_elsewhere(head, machine):
            raise Violation(Rule.IDLE_SLOT, f"{name} waits for nothing, {machine.spec.name} is free")
        since = self._aside_since.setdefault(name, now)
        if now - since >= 2 * max(1.0, self._policy.patience) * self._longest_load_s:
            raise Violation(Rule.PATIENCE, f"{name} has stood aside since {since}")
        model = head.request.model
        pace, begun = self.world.crowd(machine, model)
        holders = self.world.holders(machine.spec.region, model)
        gpus = sum(holder.health is Health.CLOSED for holder in holders) + 1
        if pace * now - begun > 4 * self._policy.patience * self._longest_load_s * gpus:
            raise Violation(Rule.PATIENCE, f"{pace} wait for {model}, {machine.spec.name} is free")
