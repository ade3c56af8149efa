"""Invariants of every decision, for tests and for deliberately broken schedulers."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from enum import StrEnum

from beacon_router.scheduling import (
    Decision,
    Expired,
    Health,
    Policy,
    Reason,
    Start,
    Topology,
)
from beacon_router.scheduling.starvation_bounds import dispatches_until_served
from tests.unit.router_scheduling.reference_state import Machine, Queue, ReferenceState, SetKey, Waiting

_QUEUE_OF = {
    Reason.GLOBAL_RETRY: Queue.GLOBAL_RETRY,
    Reason.REGION_RETRY: Queue.REGION_RETRY,
    Reason.FRONT: Queue.FRONT,
}


class Rule(StrEnum):
    """The invariants, by name."""

    NO_LOSS = "every accepted request waits, runs, or has ended once"
    NO_DUPLICATE = "nothing starts or expires twice"
    EXPIRY = "a request expires at its start_by, not before and not after"
    PLACE = "a request runs on a backend that serves its model"
    MOVED = "a start states whether its region is the requested one"
    PINNED = "a pinned request never moves"
    REGION = "a request leaves its region only when nothing healthy is there, a retry avoids where it failed"
    LOAD = "a start states whether the backend has to load the model"
    BREAKER = "an open breaker admits nothing, a half-open one a single probe"
    SLOTS = "slots are never exceeded"
    CONCURRENCY = "a region's concurrency is never exceeded"
    LIMIT = "the held share of a cap is never exceeded"
    EXCLUSIVE = "an exclusive model runs once in a region"
    FIFO = "within a user, model and tier the order is arrival"
    BYPASS_ORDER = "global retry, region retry, paid front, each by arrival, before the main queue"
    BYPASS_LIMIT = "no more of them in a row than the limit while a tier starves"
    STARVATION_FIRST = "turns are taken exactly while a tier starves"
    STARVATION_BOUND = "a starving tier is served within the documented number of dispatches"
    BATCH_LIMIT = "at most a batch starts before others because of a loaded model"
    FAIR_SHARE = "a start in order is of the user with the least virtual time in its tier"
    ORDER = "a higher tier is passed over only while it waits for a warm backend"
    IDLE_SLOT = "no slot is idle while a request could use it, except for a warm wait or a retry's wait"


class Violation(AssertionError):  # noqa: N818 - the name of the concept
    """A rule was broken."""

    def __init__(self, rule: Rule, detail: str) -> None:
        super().__init__(f"{rule}: {detail}")
        self.rule = rule


class InvariantChecker:
    """Receives every fact and every decision, and raises `Violation` at the first broken rule."""

    def __init__(self, topology: Topology, policy: Policy) -> None:
        self.state = ReferenceState(topology, policy)
        self._policy = policy
        self._bypass_run: Counter[SetKey] = Counter()
        self._jumps: Counter[SetKey] = Counter()
        self._passed: dict[tuple[str, int], Counter[SetKey]] = defaultdict(Counter)

    def adopted(self) -> None:
        """The state has another topology: what is counted of backend sets that are gone is forgotten."""
        left = {machine.backend_set for machine in self.state.machines.values()}
        for counts in (self._bypass_run, self._jumps, *self._passed.values()):
            for key in counts.keys() - left:
                del counts[key]

    def decided(self, now: float, decisions: Sequence[Decision], *, waiting: int, running: int) -> None:
        """The answer of `next`, and how many requests the scheduler says wait and run after it."""
        for decision in decisions:
            if isinstance(decision, Expired):
                self._expired(now, decision)
            else:
                self._started(now, decision)
        self._check_idle(now)
        if waiting != len(self.state.waiting) or running != len(self.state.running):
            raise Violation(Rule.NO_LOSS, f"{waiting} wait and {running} run")

    def _expired(self, now: float, decision: Expired) -> None:
        if decision.id not in self.state.waiting:
            raise Violation(Rule.NO_DUPLICATE, f"{decision.id} expired, but does not wait")
        start_by = self.state.leaves(decision.id).request.start_by
        if start_by is None or start_by > now:
            raise Violation(Rule.EXPIRY, f"{decision.id} may wait until {start_by}, and it is {now}")

    def _started(self, now: float, start: Start) -> None:
        waiting = self.state.waiting.get(start.id)
        if waiting is None:
            raise Violation(Rule.NO_DUPLICATE, f"{start.id} started, but does not wait")
        machine = self.state.machines[start.backend]
        self._check_place(now, start, waiting, machine)
        self._check_limits(waiting, machine)
        runnable = self.state.runnable(machine)
        firsts = self.state.firsts(runnable)
        starving = self.state.starving(firsts, now)
        self._check_fifo(waiting, runnable)
        self._check_bypass(now, start, waiting, runnable, starving=bool(starving))
        if waiting.queue is Queue.MAIN:
            self._check_main(start, waiting, firsts, starving)
        self._count_dispatch(waiting, machine, firsts, starving)
        self.state.starts(now, start)

    def _check_place(self, now: float, start: Start, waiting: Waiting, machine: Machine) -> None:
        request = waiting.request
        if machine.spec.region != start.region or request.model not in machine.spec.models:
            raise Violation(Rule.PLACE, f"{start.id} cannot run on {start.backend} in {start.region}")
        if start.moved != (start.region != request.region):
            raise Violation(Rule.MOVED, f"{start.id}: moved={start.moved} in {start.region}")
        if request.pinned and start.region != request.region:
            raise Violation(Rule.PINNED, f"{start.id} belongs in {request.region}, not in {start.region}")
        back = self.state.avoids(waiting, start.region)
        if back and now < waiting.arrived + self._policy.retry_elsewhere_s:
            raise Violation(Rule.REGION, f"{start.id} failed in {start.region} just now")
        if not self.state.may_run_in(waiting, start.region):
            raise Violation(Rule.REGION, f"{start.id} may not run in {start.region} now")
        if start.needs_load == (request.model in machine.loaded):
            raise Violation(Rule.LOAD, f"{start.id}: needs_load={start.needs_load} on {start.backend}")

    def _check_limits(self, waiting: Waiting, machine: Machine) -> None:
        state, spec, model = self.state, machine.spec, waiting.request.model
        if machine.health is Health.OPEN or (machine.health is Health.HALF_OPEN and machine.probe):
            raise Violation(Rule.BREAKER, f"{spec.name} is {machine.health} and admits no more work")
        if len(machine.runs) >= machine.slots:
            raise Violation(Rule.SLOTS, f"{spec.name} has {machine.slots}, all busy")
        if len(state.runs_in(spec.region)) >= state.concurrency[spec.region]:
            raise Violation(Rule.CONCURRENCY, f"{spec.region} runs as many as it may")
        for limit in state.limits_of(spec.name, model):
            if state.used(limit) >= state.held[limit]:
                raise Violation(Rule.LIMIT, f"{limit} has {state.held[limit]}, all used")
        if state.models[model].exclusive and any(
            run.request.model == model for run in state.runs_in(spec.region)
        ):
            raise Violation(Rule.EXCLUSIVE, f"{model} runs in {spec.region} already")

    @staticmethod
    def _check_fifo(waiting: Waiting, runnable: list[Waiting]) -> None:
        def key(one: Waiting) -> tuple[Queue, str, str, str, int]:
            return (one.queue, one.region, one.request.user, one.request.model, one.request.rank)

        before = [one for one in runnable if key(one) == key(waiting) and one.number < waiting.number]
        if before:
            raise Violation(Rule.FIFO, f"{before[0].request.id} came before {waiting.request.id}")

    def _check_bypass(
        self, now: float, start: Start, waiting: Waiting, runnable: list[Waiting], *, starving: bool
    ) -> None:
        key = self.state.machines[start.backend].backend_set
        candidates = [
            one
            for one in runnable
            if one.queue is not Queue.MAIN
            and not (
                self.state.avoids(one, start.region) and now < one.arrived + self._policy.retry_elsewhere_s
            )
        ]
        first = min(candidates, key=lambda one: (one.queue, one.number), default=None)
        spent = starving and self._bypass_run[key] >= self._policy.bypass_limit
        if waiting.queue is not Queue.MAIN:
            if waiting is not first or waiting.queue is not _QUEUE_OF.get(start.reason):
                raise Violation(Rule.BYPASS_ORDER, f"{start.id} as {start.reason}")
            if spent:
                raise Violation(Rule.BYPASS_LIMIT, f"{start.id} while a tier starves")
            self._bypass_run[key] += 1
            return
        if first is not None and not spent:
            raise Violation(Rule.BYPASS_ORDER, f"{first.request.id} is before {start.id}")
        self._bypass_run[key] = 0

    def _check_main(
        self, start: Start, waiting: Waiting, firsts: dict[int, Waiting], starving: list[int]
    ) -> None:
        key = self.state.machines[start.backend].backend_set
        if start.reason is Reason.AFFINITY:
            self._jumps[key] += 1
            if start.needs_load or self._jumps[key] > self._policy.batch_limit:
                raise Violation(Rule.BATCH_LIMIT, f"{start.id} on {start.backend}")
            return
        overtakes = (
            start.reason is Reason.ORDER and not start.needs_load and waiting is not firsts[min(firsts)]
        )
        self._jumps[key] = self._jumps[key] + 1 if overtakes else 0
        if bool(starving) != (start.reason is Reason.STARVATION):
            raise Violation(Rule.STARVATION_FIRST, f"{start.id} as {start.reason}, starving: {starving}")
        first = firsts[waiting.request.rank]
        waits = start.reason is Reason.ORDER and (not start.needs_load or self._held_elsewhere(first, start))
        if waiting is not first and not waits:
            raise Violation(Rule.FAIR_SHARE, f"{first.request.id} is before {start.id}")
        for rank, other in firsts.items():
            passed = rank < waiting.request.rank and not starving
            if passed and start.needs_load and not self._held_elsewhere(other, start):
                raise Violation(Rule.ORDER, f"{other.request.id} is before {start.id}")
        top = firsts[min(firsts)]
        if not starving and waiting is not top and not self._held_elsewhere(top, start):
            raise Violation(Rule.ORDER, f"{top.request.id} is before {start.id}")

    def _held_elsewhere(self, first: Waiting, start: Start) -> bool:
        holders = self.state.holders(start.region, first.request.model)
        return any(one.spec.name != start.backend and one.health is Health.CLOSED for one in holders)

    def _count_dispatch(
        self, waiting: Waiting, machine: Machine, firsts: dict[int, Waiting], starving: list[int]
    ) -> None:
        """A starving tier of a region sees at most so many dispatches of other tiers."""
        for rank in range(len(self._policy.tiers)):
            key = (machine.spec.region, rank)
            served = waiting.queue is Queue.MAIN and waiting.request.rank == rank
            if served or rank not in firsts or rank not in starving:
                self._passed.pop(key, None)
                continue
            passed = self._passed[key]
            passed[machine.backend_set] += 1
            if passed.total() >= dispatches_until_served(self._policy, rank, len(passed)):
                raise Violation(Rule.STARVATION_BOUND, f"tier {rank} saw {passed.total()} dispatches")

    def _check_idle(self, now: float) -> None:
        """Once all that can start has started."""
        for waiting in self.state.waiting.values():
            if waiting.request.start_by is not None and waiting.request.start_by <= now:
                raise Violation(Rule.EXPIRY, f"{waiting.request.id} should have expired")
        for machine in self.state.machines.values():
            if self.state.usable(machine):
                runnable = self.state.runnable(machine)
                firsts = self.state.firsts(runnable)
                if self.state.starving(firsts, now):
                    raise Violation(Rule.IDLE_SLOT, f"a tier starves, {machine.spec.name} is free")
                for one in runnable:
                    self._check_waits(now, one, machine)

    def _check_waits(self, now: float, one: Waiting, machine: Machine) -> None:
        name = one.request.id
        if one.queue is Queue.MAIN:
            holders = self.state.holders(machine.spec.region, one.request.model)
            if not any(other is not machine and other.health is Health.CLOSED for other in holders):
                raise Violation(Rule.IDLE_SLOT, f"{name} waits for nothing, {machine.spec.name} is free")
            return
        back = one.queue is Queue.GLOBAL_RETRY and self.state.avoids(one, machine.spec.region)
        if not back or now >= one.arrived + self._policy.retry_elsewhere_s:
            raise Violation(Rule.IDLE_SLOT, f"{name} waits, {machine.spec.name} is free")
