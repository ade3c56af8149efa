"""What the simulated GPU has seen since its start or the last reset."""

from collections import Counter

from beacon_gpusim.core.calls import Call, Outcome


class Stats:
    def __init__(self) -> None:
        self.outcomes: Counter[Outcome] = Counter()
        self.loads: Counter[str] = Counter()
        self.max_concurrent = 0
        self.max_concurrent_by_model: dict[str, int] = {}
        self.concurrent_by_model: Counter[str] = Counter()

    @property
    def excess(self) -> int:
        return self.outcomes[Outcome.REFUSED]

    def came_in(self, call: Call, held: int) -> None:
        self.concurrent_by_model[call.model] += 1
        here = self.concurrent_by_model[call.model]
        self.max_concurrent = max(self.max_concurrent, held)
        if here > self.max_concurrent_by_model.get(call.model, 0):
            self.max_concurrent_by_model[call.model] = here

    def went_out(self, call: Call) -> None:
        self.concurrent_by_model[call.model] -= 1
