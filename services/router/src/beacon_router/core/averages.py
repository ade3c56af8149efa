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


class Averages:
    """Expected seconds per model, over all backends."""

    __slots__ = ("_of_model", "longest")

    def __init__(self, guesses: Mapping[str, float]) -> None:
        self._of_model = {model: Average(guess) for model, guess in guesses.items()}
        self.longest = max(guesses.values(), default=0.0)
        """No average of a model, of all backends or of one, was ever longer."""

    def of(self, model: str) -> float:
        return self._of_model[model].value

    def add(self, model: str, seconds: float) -> None:
        average = self._of_model[model]
        average.add(seconds)
        self.longest = max(self.longest, average.value)


class OwnAverages:
    """What one backend takes; as long as it has not done a thing, it is expected to be like the others."""

    __slots__ = ("_own", "of_all")

    def __init__(self, of_all: Averages) -> None:
        self.of_all = of_all
        self._own: dict[str, Average] = {}

    def of(self, model: str) -> float:
        own = self._own.get(model)
        return self.of_all.of(model) if own is None else own.value

    def add(self, model: str, seconds: float) -> None:
        own = self._own.get(model)
        if own is None:
            own = self._own[model] = Average(self.of_all.of(model))
        own.add(seconds)
        self.of_all.add(model, seconds)
        self.of_all.longest = max(self.of_all.longest, own.value)


class Durations:
    """Where the averages begin: with what the configuration expects."""

    __slots__ = ("loads", "runs")

    def __init__(self, models: tuple[ModelSpec, ...]) -> None:
        self.runs = Averages({model.name: model.expected_run_s for model in models})
        self.loads = Averages({model.name: model.expected_load_s for model in models})
