"""The rules of docs/scheduling.md in their plainest form: everything is sorted again for every decision."""

from collections import Counter
from dataclasses import dataclass, field
from math import inf

from beacon_router.scheduling import (
    Decision,
    Expired,
    Health,
    LimitName,
    Policy,
    Reason,
    Start,
    Topology,
)
from beacon_router.scheduling.stride import StrideScheduler
from tests.unit.router_scheduling.reference_state import Machine, Queue, ReferenceState, SetKey, Waiting

_BYPASS = {
    Queue.GLOBAL_RETRY: Reason.GLOBAL_RETRY,
    Queue.REGION_RETRY: Reason.REGION_RETRY,
    Queue.FRONT: Reason.FRONT,
}
Pick = tuple[Waiting, Reason, bool]


@dataclass(slots=True)
class SetCounters:
    """Of one backend set."""

    stride: StrideScheduler
    batch: int = 0
    bypass_run: int = 0
    served: int = 0


@dataclass(slots=True)
class Question:
    """One decision: what a free slot of these machines starts."""

    free: list[Machine]
    runnable: list[Waiting]
    firsts: dict[int, Waiting] = field(default_factory=dict)
    starving: list[int] = field(default_factory=list)


class Reference:
    def __init__(self, topology: Topology, policy: Policy) -> None:
        self.state = ReferenceState(topology, policy)
        self.freed: list[LimitName] = []
        self._policy = policy
        self._served: Counter[tuple[LimitName, str]] = Counter()
        self._dispatches = 0
        weights = [tier.weight for tier in policy.tiers]
        self._sets: dict[SetKey, SetCounters] = {
            machine.backend_set: SetCounters(StrideScheduler(weights))
            for machine in self.state.machines.values()
        }

    def adopted(self) -> None:
        """The state has another topology."""
        self.freed = []
        weights = [tier.weight for tier in self._policy.tiers]
        self._sets = {
            key: self._sets.get(key) or SetCounters(StrideScheduler(weights))
            for key in dict.fromkeys(machine.backend_set for machine in self.state.machines.values())
        }
        self._served = Counter(
            {key: served for key, served in self._served.items() if key[0] in self.state.caps}
        )

    def next(self, now: float) -> list[Decision]:
        decisions: list[Decision] = []
        for waiting in list(self.state.waiting.values()):
            if waiting.request.start_by is not None and waiting.request.start_by <= now:
                self.state.leaves(waiting.request.id)
                decisions.append(Expired(waiting.request.id))
        freed = [name for name in dict.fromkeys(self.freed) if len(self.state.regions_of(name)) > 1]
        regions = sorted(
            self.state.concurrency, key=lambda region: [self._served[limit, region] for limit in freed]
        )
        while regions:
            region = regions.pop(0)
            start = self._start(now, region)
            if start is not None:
                decisions.append(start)
                regions.append(region)
        self.freed.clear()
        return decisions

    def _start(self, now: float, region: str) -> Start | None:
        """Start a request on the first set that can, in the order of their last dispatches."""
        sets = [key for key in self._sets if key[0] == region]
        for key in sorted(sets, key=lambda one: self._sets[one].served):
            question = self._question(key, now)
            picked = None if question is None else self._pick(key, question, now)
            if question is not None and picked is not None:
                return self._carry_out(now, key, picked, question.free)
        return None

    def _question(self, key: SetKey, now: float) -> Question | None:
        machines = [machine for machine in self.state.machines.values() if machine.backend_set == key]
        free = sorted(
            (machine for machine in machines if self.state.usable(machine)),
            key=lambda machine: machine.in_line or 0,
        )
        free = [machine for machine in free if machine.health is Health.CLOSED] or free
        if not free:
            return None
        question = Question(free, self.state.runnable(free[0]))
        question.firsts = self.state.firsts(question.runnable)
        question.starving = self.state.starving(question.firsts, now)
        return question

    def _pick(self, key: SetKey, question: Question, now: float) -> Pick | None:
        counters = self._sets[key]
        bypass = self._bypass(key, question, now)
        if bypass is not None and not (
            question.starving and counters.bypass_run >= self._policy.bypass_limit
        ):
            return bypass, _BYPASS[bypass.queue], False
        if not question.firsts:
            return None
        warm = self._first_warm(question)
        may_jump = (
            counters.batch < self._policy.batch_limit
            and not self._leads(question, warm)
            and not (self._urgent(min(question.firsts)) and self._of_lower_tier(question, warm))
        )
        if question.starving:
            ranks = [rank for rank in question.firsts if rank <= max(question.starving)]
            turn = question.firsts[counters.stride.choose(ranks)]
            if warm is not None and may_jump and not self._is_warm(turn, question.free):
                return warm, Reason.AFFINITY, True
            return turn, Reason.STARVATION, False
        top = question.firsts[min(question.firsts)]
        if warm is not None and may_jump:
            return (warm, Reason.ORDER, False) if warm is top else (warm, Reason.AFFINITY, True)
        return self._in_order(question, top, warm, now)

    def _of_lower_tier(self, question: Question, warm: Waiting | None) -> bool:
        return warm is not None and warm.request.rank > min(question.firsts)

    def _urgent(self, rank: int) -> bool:
        """The tier has more than the median weight."""
        weights = sorted(tier.weight for tier in self._policy.tiers)
        return self._policy.tiers[rank].weight > weights[len(weights) // 2]

    def _leads(self, question: Question, warm: Waiting | None) -> bool:
        """Its user is further ahead of the first user in the tier than affinity allows."""
        if warm is None:
            return False
        rank = warm.request.rank
        lead_s = self.state.place_of(warm)[1] - self.state.place_of(question.firsts[rank])[1]
        return lead_s > self._policy.tiers[rank].starvation_bound_s

    def _in_order(self, question: Question, top: Waiting, warm: Waiting | None, now: float) -> Pick | None:
        if not self._waits_for_warm(question, top, now, idle=warm is None):
            return top, Reason.ORDER, False
        if warm is not None:
            return warm, Reason.ORDER, True
        models = {one.request.model for one in question.runnable if one.queue is Queue.MAIN}
        others = [
            min(
                (one for one in question.runnable if one.request.model == model and one.queue is Queue.MAIN),
                key=self.state.place_of,
            )
            for model in models - {top.request.model}
        ]
        for other in sorted(others, key=self.state.place_of):
            if not self._waits_for_warm(question, other, now, idle=True):
                return other, Reason.ORDER, False
        return None

    def _bypass(self, key: SetKey, question: Question, now: float) -> Waiting | None:
        """The retry queues and the paid front; the failed region may retry only after some seconds."""
        candidates = [
            one
            for one in question.runnable
            if one.queue is not Queue.MAIN
            and not (self.state.avoids(one, key[0]) and now < one.arrived + self._policy.retry_elsewhere_s)
        ]
        return min(candidates, key=lambda one: (one.queue, one.number), default=None)

    def _first_warm(self, question: Question) -> Waiting | None:
        warm = [
            one
            for one in question.runnable
            if one.queue is Queue.MAIN and any(one.request.model in each.loaded for each in question.free)
        ]
        return min(warm, key=self.state.place_of, default=None)

    def _is_warm(self, waiting: Waiting, free: list[Machine]) -> bool:
        return waiting.request.model in self._place(waiting.request.model, free).loaded

    def _waits_for_warm(self, question: Question, waiting: Waiting, now: float, *, idle: bool) -> bool:
        model, policy = waiting.request.model, self._policy
        machine = self._place(model, question.free)
        holders = self.state.holders(machine.spec.region, model)
        warm = [holder for holder in holders if holder.health is Health.CLOSED]
        full = [holder for holder in warm if holder.slots and len(holder.runs) >= holder.slots]
        free_at = min(
            (sorted(run.ends for run in one.runs.values())[len(one.runs) - one.slots] for one in full),
            default=inf,
        )
        if model in machine.loaded or free_at == inf or policy.warm_wait_max_loads == 0.0:
            return False
        loads = min(2.5, policy.warm_wait_max_loads) if idle else policy.warm_wait_max_loads
        if self._urgent(waiting.request.rank):
            loads = min(1.0, loads)
        limit_s = self.state.durations.loads.of(model) * loads
        same = [one for one in question.runnable if one.queue is Queue.MAIN and one.request.model == model]
        backlog = len(same) - 1 if idle else 0
        last_at = free_at + backlog * self.state.durations.runs.of(model) / len(warm)
        return last_at - limit_s < now < free_at + limit_s

    def _place(self, model: str, free: list[Machine]) -> Machine:
        """Breaker closed, model loaded, room for a model, the least demanded model, idle for longest."""

        def full(machine: Machine) -> bool:
            return model not in machine.loaded and len(machine.loaded) >= machine.spec.loaded_models

        return min(
            free,
            key=lambda one: (
                one.health is not Health.CLOSED,
                model not in one.loaded,
                full(one),
                self.state.demand_for(one) if full(one) else 0.0,
                one.in_line or 0,
            ),
        )

    def _carry_out(self, now: float, key: SetKey, pick: Pick, free: list[Machine]) -> Start:
        waiting, reason, jumps = pick
        request, counters = waiting.request, self._sets[key]
        machine = self._place(request.model, free)
        region = machine.spec.region
        start = Start(
            request.id,
            machine.spec.name,
            region,
            request.model not in machine.loaded,
            reason,
            region != request.region,
        )
        self._dispatches += 1
        counters.served = self._dispatches
        for limit in self.state.limits_of(machine.spec.name, request.model):
            self._served[limit, region] = self._dispatches
        if waiting.queue is Queue.MAIN:
            counters.batch = counters.batch + 1 if jumps else 0
            counters.bypass_run = 0
            if reason is Reason.STARVATION:
                counters.stride.take(request.rank)
        else:
            counters.bypass_run += 1
        self.state.starts(now, start)
        return start
