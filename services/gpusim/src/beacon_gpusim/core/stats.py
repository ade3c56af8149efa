"""Counters of the simulated GPU since its start or the last reset."""

from collections import Counter

from beacon_gpusim.core.calls import Call, CallOutcome


class Stats:
    def __init__(self) -> None:
        self.outcomes: Counter[CallOutcome] = Counter()
        self.loads: Counter[str] = Counter()
        self.max_concurrent = 0
        self.max_concurrent_by_model: dict[str, int] = {}
        self.concurrent_by_model: Counter[str] = Counter()

    @property
    def excess(self) -> int:
        return self.outcomes[CallOutcome.REFUSED]

    def record_arrival(self, call: Call, held: int) -> None:
        self.concurrent_by_model[call.model] += 1
        here = self.concurrent_by_model[call.model]
        self.max_concurrent = max(self.max_concurrent, held)
        if here > self.max_concurrent_by_model.get(call.model, 0):
            self.max_concurrent_by_model[call.model] = here

    def record_end(self, call: Call) -> None:
        self.concurrent_by_model[call.model] -= 1
