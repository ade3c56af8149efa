"""For any sequence of calls: no slot is exceeded, no model in use is evicted, every call ends."""

import heapq
import math
from itertools import count
from random import Random
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from beacon_gpusim.core.calls import Call, CallLedger, CallOutcome
from beacon_gpusim.core.durations import Constant, DurationModel, ModelDurations, Uniform
from beacon_gpusim.core.faults import Fault, FaultKind, FaultRules
from beacon_gpusim.core.gpu import Effect, Gpu, StartLoad
from beacon_gpusim.core.memory import ModelMemory

MODELS = ["a", "b", "c"]


class GpuMachine(RuleBasedStateMachine):
    """Calls arrive, end and are aborted while the clock moves from event to event."""

    @initialize(
        slots=st.integers(1, 5),
        loaded_models=st.integers(1, 3),
        instant=st.booleans(),
        seed=st.integers(0, 99),
    )
    def begin(self, slots: int, loaded_models: int, instant: bool, seed: int) -> None:
        times = (
            ModelDurations(Constant(0), Constant(0))
            if instant
            else ModelDurations(Uniform(0, 5), Uniform(0, 3))
        )
        self.gpu = Gpu(
            region="EU",
            slots=slots,
            memory=ModelMemory(loaded_models),
            durations=DurationModel({}, default=times, scale=1.0, random=Random(seed)),
            faults=FaultRules(Random(seed)),
            ledger=CallLedger(10_000),
        )
        self.now = 0.0
        self.events: list[tuple[float, int, Any]] = []
        self.parsed = count()
        self.calls: list[Call] = []

    @rule(model=st.sampled_from(MODELS))
    def arrive(self, model: str) -> None:
        full = len(self.gpu.held) >= self.gpu.slots
        call, effects = self.gpu.arrive(request_id="r", dialect="modal", model=model, now=self.now)
        assert (call.outcome is CallOutcome.REFUSED) is full
        self.calls.append(call)
        self.schedule(effects)

    @rule(kind=st.sampled_from([FaultKind.HANG, FaultKind.SLOW_RUN, FaultKind.SLOW_START, FaultKind.EMPTY]))
    def add_fault_to_next(self, kind: FaultKind) -> None:
        self.gpu.faults.add(Fault(kind, extra_s=4.0, next_n=1))

    @precondition(lambda self: self.events)
    @rule()
    def next_event(self) -> None:
        due, _, what = heapq.heappop(self.events)
        self.now = max(self.now, due)
        if isinstance(what, Call):
            self.schedule(self.gpu.finish(what, CallOutcome.COMPLETED, self.now))
        else:
            self.schedule(self.gpu.load_done(what, self.now))

    @precondition(lambda self: self.gpu.held)
    @rule(which=st.integers(0, 10))
    def client_leaves(self, which: int) -> None:
        call = self.gpu.held[which % len(self.gpu.held)]
        self.schedule(self.gpu.finish(call, CallOutcome.ABORTED, self.now))

    @rule(slots=st.integers(0, 5))
    def resize(self, slots: int) -> None:
        self.gpu.slots = slots

    def schedule(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, StartLoad):
                self.push(effect.seconds, effect.model)
            elif math.isfinite(effect.seconds):
                self.push(effect.seconds, effect.call)

    def push(self, seconds: float, what: Call | str) -> None:
        heapq.heappush(self.events, (self.now + seconds, next(self.parsed), what))

    @invariant()
    def memory_is_never_overfull(self) -> None:
        memory = self.gpu.memory
        assert len(memory.ready) + len(memory.loading) <= memory.capacity

    @invariant()
    def every_running_call_has_its_model_loaded_and_counted(self) -> None:
        running = [call.model for call in self.gpu.held if call.started is not None]
        assert {model: uses for model, uses in self.gpu.memory.ready.items() if uses} == {
            model: running.count(model) for model in set(running)
        }

    @invariant()
    def waiting_calls_wait_for_memory(self) -> None:
        """A call that has not started waits for a load, or for memory that others use."""
        waiting = [call for call in self.gpu.held if call.started is None]
        if waiting:
            in_use = any(call.started is not None for call in self.gpu.held)
            assert self.gpu.memory.loading or in_use

    @invariant()
    def counters_add_up(self) -> None:
        over = [call for call in self.calls if call.outcome is not None]
        assert len(over) + len(self.gpu.held) == len(self.calls) == len(self.gpu.ledger)
        assert self.gpu.stats.outcomes.total() == len(over)
        assert self.gpu.stats.excess == sum(call.outcome is CallOutcome.REFUSED for call in over)
        assert self.gpu.stats.max_concurrent <= 5

    def teardown(self) -> None:
        """After hung calls are aborted, all others end."""
        if not hasattr(self, "gpu"):
            return
        while self.gpu.held:
            if self.events:
                self.next_event()
            else:
                self.client_leaves(0)
        assert all(call.outcome is not None for call in self.calls)


GpuMachine.TestCase.settings = settings(max_examples=120, stateful_step_count=40)
TestGpuMachine = GpuMachine.TestCase
