"""Moving averages of load and run times, per backend and model."""

from collections.abc import Mapping

from beacon_router.scheduling.size_model import SizeModel, clamp
from beacon_router.scheduling.state.topology import ModelSpec

_MEMORY = 10
"""A new measurement is one of so many; the first few count for more, so that the guess fades quickly."""


class Average:
    """An exponential moving average that begins as a plain mean of a guess and the measurements."""

    __slots__ = ("seen", "value")

    def __init__(self, guess: float) -> None:
        self.value = guess
        self.seen = 1

    def add(self, seconds: float) -> None:
        if self.seen < _MEMORY:
            self.seen += 1
        self.value += (seconds - self.value) / self.seen


class SharedDurations:
    """Expected seconds per model, over all backends, and how they depend on sizes."""

    __slots__ = ("averages", "by_size")

    def __init__(self, guesses: Mapping[str, float]) -> None:
        self.averages = {model: Average(guess) for model, guess in guesses.items()}
        self.by_size = {model: SizeModel() for model in guesses}

    def adopt(self, source: "SharedDurations") -> None:
        """Continue with what was measured; where nothing was, the new guess applies."""
        for model in self.averages.keys() & source.averages.keys():
            if source.averages[model].seen > 1:
                self.averages[model] = source.averages[model]
            self.by_size[model] = source.by_size[model]

    def of(self, model: str) -> float:
        return self.averages[model].value


class BackendDurations:
    """Expected seconds on one backend; those of all backends until it has measurements of its own."""

    __slots__ = ("_averages", "_paces", "shared")

    def __init__(self, shared: SharedDurations) -> None:
        self.shared = shared
        self._averages = shared.averages.copy()
        self._paces: dict[str, Average] = {}
        """By model with sizes: its seconds, as a share of what such a size takes on any backend."""

    def on(self, shared: SharedDurations) -> "BackendDurations":
        """The measurements of the same backend, on those of another topology."""
        copy = BackendDurations(shared)
        for model, average in self._averages.items():
            if model in shared.averages and average is not self.shared.averages[model]:
                copy._averages[model] = average
        copy._paces = {model: pace for model, pace in self._paces.items() if model in shared.averages}
        return copy

    def of(self, model: str) -> float:
        return self._averages[model].value

    def of_size(self, model: str, size: float | None) -> float:
        """The expected seconds of a request of this size; the average while the size says nothing."""
        expected_s = self.shared.by_size[model].seconds(size)
        if expected_s is None:
            return self._averages[model].value
        pace = self._paces.get(model)
        return expected_s if pace is None else expected_s * pace.value

    def uncertainty(self, model: str, size: float | None) -> float:
        """The spread around the expected seconds, as a share of the spread without a size."""
        return self.shared.by_size[model].uncertainty(size)

    def add(self, model: str, seconds: float, size: float | None = None) -> None:
        """A measurement."""
        if size is not None:
            self._learn_size(model, seconds, size)
        own, shared = self._averages[model], self.shared.averages[model]
        if own is shared:
            own = self._averages[model] = Average(shared.value)
        own.add(seconds)
        shared.add(seconds)

    def _learn_size(self, model: str, seconds: float, size: float) -> None:
        by_size = self.shared.by_size[model]
        expected_s = by_size.seconds(size)
        if expected_s is not None and expected_s > 0.0:
            self._paces.setdefault(model, Average(1.0)).add(clamp(seconds / expected_s))
        by_size.learn(size, seconds)


class Durations:
    """The averages begin with what the configuration expects."""

    __slots__ = ("loads", "runs")

    def __init__(self, models: tuple[ModelSpec, ...], before: "Durations | None" = None) -> None:
        self.runs = SharedDurations({model.name: model.expected_run_s for model in models})
        self.loads = SharedDurations({model.name: model.expected_load_s for model in models})
        if before is not None:
            self.runs.adopt(before.runs)
            self.loads.adopt(before.loads)
