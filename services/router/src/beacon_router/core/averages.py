"""Moving averages of what loads and runs take, per backend and model."""

from collections.abc import Mapping

from beacon_router.core.topology import ModelSpec

_WEIGHT = 0.1
"""Of a new measurement; the first few count for more, so that the configured guess fades quickly."""


class Average:
    """An exponential moving average that begins as a plain mean of a guess and what is measured."""

    __slots__ = ("_seen", "value")

    def __init__(self, guess: float) -> None:
        self.value = guess
        self._seen = 1

    def add(self, measured: float) -> None:
        self._seen += 1
        self.value += (measured - self.value) * max(_WEIGHT, 1 / self._seen)


class Durations:
    """Expected seconds per model, over all backends, and the start of a backend's own averages."""

    __slots__ = ("loads", "runs")

    def __init__(self, models: tuple[ModelSpec, ...]) -> None:
        self.runs = {model.name: Average(model.expected_run_s) for model in models}
        self.loads = {model.name: Average(model.expected_load_s) for model in models}


class OwnAverages:
    """What one backend takes; as long as it has not done a thing, it is expected to be like the others."""

    __slots__ = ("_all", "_own")

    def __init__(self, of_all: Mapping[str, Average]) -> None:
        self._all = of_all
        self._own: dict[str, Average] = {}

    def of(self, model: str) -> float:
        return (self._own.get(model) or self._all[model]).value

    def add(self, model: str, seconds: float) -> None:
        own = self._own.get(model)
        if own is None:
            own = self._own[model] = Average(self._all[model].value)
        own.add(seconds)
        self._all[model].add(seconds)
