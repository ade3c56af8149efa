"""The simulated GPU: slots, model memory, faults and the ledger. It decides; the engine performs."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from beacon_gpusim.core.calls import Call, Ledger, Outcome
from beacon_gpusim.core.faults import ENDLESS, FaultBook, FaultKind
from beacon_gpusim.core.memory import ModelMemory, Place
from beacon_gpusim.core.stats import Stats
from beacon_gpusim.core.times import Timetable


@dataclass(frozen=True, slots=True)
class StartLoad:
    """Call `load_done(model)` after so many seconds."""

    model: str
    seconds: float


@dataclass(frozen=True, slots=True)
class StartRun:
    """Call `finish(call)` after so many seconds; infinity: only the client or a fault ends it."""

    call: Call
    seconds: float


Effect = StartLoad | StartRun


class Gpu:
    """A call that is let in holds a slot until `finish`; those that wait for memory start in turn."""

    def __init__(
        self,
        *,
        region: str,
        slots: int,
        memory: ModelMemory,
        times: Timetable,
        faults: FaultBook,
        ledger: Ledger,
        numbers: Iterator[int] | None = None,
    ) -> None:
        self.region = region
        self.slots = slots
        self.memory = memory
        self.times = times
        self.faults = faults
        self.ledger = ledger
        self.stats = Stats()
        self._numbers = numbers or count(1)
        self._held: dict[int, Call] = {}
        self._waiting_load: dict[str, dict[int, Call]] = {}
        self._waiting_memory: dict[int, Call] = {}

    def __repr__(self) -> str:
        return (
            f"GPU {self.region}: {len(self._held)} of {self.slots} slots held, "
            f"{len(self._waiting_memory)} wait for memory; {self.memory!r}"
        )

    @property
    def held(self) -> tuple[Call, ...]:
        """The calls that hold a slot now, oldest first."""
        return tuple(self._held.values())

    def arrive(self, *, request_id: str, dialect: str, model: str, now: float) -> tuple[Call, list[Effect]]:
        """Let a call in or refuse it: a refused call comes back with its outcome set."""
        call = Call(next(self._numbers), request_id, dialect, model, self.region, now, len(self._held) + 1)
        self.ledger.add(call)
        if len(self._held) >= self.slots:
            call.concurrent -= 1
            self._close(call, Outcome.REFUSED, now)
            return call, []
        self._held[call.seq] = call
        self.stats.came_in(call, len(self._held))
        call.fault = self.faults.decide(model)
        if call.fault is not None and call.fault.strikes_at_once():
            return call, []
        if self._waiting_memory:
            # Later calls queue behind, even for a loaded model: otherwise a busy model starves the rest.
            self._waiting_memory[call.seq] = call
            return call, []
        return call, self._place(call, now)

    def load_done(self, model: str, now: float) -> list[Effect]:
        """The model is in memory: everybody who waited for this load starts."""
        self.memory.end_load(model)
        waiting = self._waiting_load.pop(model, {})
        effects = [self._start(call, now) for call in waiting.values()]
        return effects + self._place_waiting(now)

    def finish(self, call: Call, outcome: Outcome, now: float) -> list[Effect]:
        """The call is over, by itself or by force; its slot is free at once. Idempotent."""
        if call.outcome is not None:
            return []
        del self._held[call.seq]
        self._waiting_memory.pop(call.seq, None)
        self._waiting_load.get(call.model, {}).pop(call.seq, None)
        if call.started is not None:
            call.load_s = min(call.started, now) - call.arrived
            call.run_s = max(0.0, now - call.started)
            self.memory.release(call.model)
        self.stats.went_out(call)
        self._close(call, outcome, now)
        return self._place_waiting(now)

    def release(self, most: int | None = None) -> list[Call]:
        """Let go of held runs, oldest first: those to finish now. Without `most` no later run is held."""
        held = [call for call in self._held.values() if call.fault and call.fault.kind is FaultKind.HOLD]
        if most is None:
            self.faults.clear(FaultKind.HOLD)
        for call in held[:most]:
            call.fault = None
        return [call for call in held[:most] if call.started is not None]

    def retry_after_s(self, now: float) -> int:
        """When the next slot should be free, in whole seconds, at least one."""
        ends = [call.started + call.run_s for call in self._held.values() if call.started is not None]
        known = [end - now for end in ends if math.isfinite(end) and end > now]
        return max(1, math.ceil(min(known, default=1.0)))

    def _place(self, call: Call, now: float) -> list[Effect]:
        effects = self._try_place(call, now)
        if effects is None:
            self._waiting_memory[call.seq] = call
            return []
        return effects

    def _place_waiting(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        while self._waiting_memory:
            seq, call = next(iter(self._waiting_memory.items()))
            placed = self._try_place(call, now)
            if placed is None:
                break
            del self._waiting_memory[seq]
            effects += placed
        return effects

    def _try_place(self, call: Call, now: float) -> list[Effect] | None:
        """Start it, let it wait for its model's load, or None: there is no room for its model now."""
        place = self.memory.place(call.model)
        if place is Place.READY:
            return [self._start(call, now)]
        if place is Place.LOADING:
            self._waiting_load[call.model][call.seq] = call
            return []
        if not self.memory.begin_load(call.model):
            return None
        return self._load(call, now)

    def _load(self, call: Call, now: float) -> list[Effect]:
        self.stats.loads[call.model] += 1
        seconds = self.times.load_s(call.model)
        if seconds <= 0:
            self.memory.end_load(call.model)
            return [self._start(call, now)]
        self._waiting_load[call.model] = {call.seq: call}
        return [StartLoad(call.model, seconds)]

    def _start(self, call: Call, now: float) -> StartRun:
        self.memory.take(call.model)
        seconds = self.times.run_s(call.model)
        delay = 0.0
        if call.fault is not None:
            if call.fault.kind is FaultKind.SLOW_START:
                delay = call.fault.extra_s
            elif call.fault.kind is FaultKind.SLOW_RUN:
                seconds += call.fault.extra_s
            elif call.fault.kind in ENDLESS:
                seconds = math.inf
        call.started = now + delay
        call.load_s = call.started - call.arrived
        call.run_s = seconds
        return StartRun(call, delay + seconds)

    def _close(self, call: Call, outcome: Outcome, now: float) -> None:
        call.ended = now
        call.outcome = outcome
        self.stats.outcomes[outcome] += 1
