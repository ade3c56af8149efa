"""The simulated GPU: slots, model memory, faults and the ledger. It decides; the engine executes."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count

from beacon_gpusim.core.calls import Call, CallLedger, CallOutcome
from beacon_gpusim.core.durations import DurationModel
from beacon_gpusim.core.faults import NOT_COMPLETING, FaultKind, FaultRules
from beacon_gpusim.core.media import MediaSpec
from beacon_gpusim.core.memory import LoadState, ModelMemory
from beacon_gpusim.core.stats import Stats


@dataclass(frozen=True, slots=True)
class StartLoad:
    """Call `load_done(model)` after `seconds`."""

    model: str
    seconds: float


@dataclass(frozen=True, slots=True)
class StartRun:
    """Call `finish(call)` after `seconds`; infinity: only a disconnect or a fault ends the run."""

    call: Call
    seconds: float


Effect = StartLoad | StartRun


class Gpu:
    """An accepted call holds a slot until `finish`; calls that wait for memory start in arrival order."""

    def __init__(
        self,
        *,
        region: str,
        slots: int,
        memory: ModelMemory,
        durations: DurationModel,
        faults: FaultRules,
        ledger: CallLedger,
        media: Mapping[str, MediaSpec] | None = None,
        numbers: Iterator[int] | None = None,
    ) -> None:
        self.region = region
        self.slots = slots
        self.memory = memory
        self.durations = durations
        self.faults = faults
        self.ledger = ledger
        self.media = dict(media or {})
        """The models that return files."""
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
        """Accept or refuse a call: a refused call is returned with its outcome set."""
        call = Call(next(self._numbers), request_id, dialect, model, self.region, now, len(self._held) + 1)
        self.ledger.add(call)
        if len(self._held) >= self.slots:
            call.concurrent -= 1
            self._close(call, CallOutcome.REFUSED, now)
            return call, []
        self._held[call.seq] = call
        self.stats.record_arrival(call, len(self._held))
        call.fault = self.faults.decide(model)
        if call.fault is not None and call.fault.ends_at_once():
            return call, []
        if self._waiting_memory:
            # Later calls queue behind, even for a loaded model: otherwise a busy model starves the rest.
            self._waiting_memory[call.seq] = call
            return call, []
        return call, self._place(call, now)

    def load_done(self, model: str, now: float) -> list[Effect]:
        """The model is in memory: the calls that waited for this load start."""
        self.memory.end_load(model)
        waiting = self._waiting_load.pop(model, {})
        effects = [self._start(call, now) for call in waiting.values()]
        return effects + self._place_waiting(now)

    def finish(self, call: Call, outcome: CallOutcome, now: float) -> list[Effect]:
        """End a call and release its slot. Idempotent."""
        if call.outcome is not None:
            return []
        del self._held[call.seq]
        self._waiting_memory.pop(call.seq, None)
        self._waiting_load.get(call.model, {}).pop(call.seq, None)
        if call.started is not None:
            call.load_s = min(call.started, now) - call.arrived
            call.run_s = max(0.0, now - call.started)
            self.memory.release(call.model)
        self.stats.record_end(call)
        self._close(call, outcome, now)
        return self._place_waiting(now)

    def release(self, most: int | None = None) -> list[Call]:
        """Release held runs, oldest first; returns those to finish. Without `most` hold rules are deleted."""
        held = [call for call in self._held.values() if call.fault and call.fault.kind is FaultKind.HOLD]
        if most is None:
            self.faults.clear(FaultKind.HOLD)
        for call in held[:most]:
            call.fault = None
        return [call for call in held[:most] if call.started is not None]

    def retry_after_s(self, now: float) -> int:
        """Seconds until the next slot is expected to be free, rounded up, at least 1."""
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
        """Start it, let it wait for its model's load, or return None: no room for its model now."""
        place = self.memory.place(call.model)
        if place is LoadState.READY:
            return [self._start(call, now)]
        if place is LoadState.LOADING:
            self._waiting_load[call.model][call.seq] = call
            return []
        if not self.memory.begin_load(call.model):
            return None
        return self._load(call, now)

    def _load(self, call: Call, now: float) -> list[Effect]:
        self.stats.loads[call.model] += 1
        seconds = self.durations.load_s(call.model)
        if seconds <= 0:
            self.memory.end_load(call.model)
            return [self._start(call, now)]
        self._waiting_load[call.model] = {call.seq: call}
        return [StartLoad(call.model, seconds)]

    def _start(self, call: Call, now: float) -> StartRun:
        self.memory.take(call.model)
        seconds = self.durations.run_s(call.model)
        delay = 0.0
        if call.fault is not None:
            if call.fault.kind is FaultKind.SLOW_START:
                delay = call.fault.extra_s
            elif call.fault.kind is FaultKind.SLOW_RUN:
                seconds += call.fault.extra_s
            elif call.fault.kind in NOT_COMPLETING:
                seconds = math.inf
        call.started = now + delay
        call.load_s = call.started - call.arrived
        call.run_s = seconds
        return StartRun(call, delay + seconds)

    def _close(self, call: Call, outcome: CallOutcome, now: float) -> None:
        call.ended = now
        call.outcome = outcome
        self.stats.outcomes[outcome] += 1
