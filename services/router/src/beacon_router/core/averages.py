"""Moving averages of what loads and runs take, per backend and model."""

from collections.abc import Mapping

from beacon_router.core.relation import Relation
from beacon_router.core.topology import ModelSpec

_MEMORY = 10
"""A new measurement is one of so many; the first few count for more, so that the guess fades quickly."""


class Average:
    """An exponential moving average that begins as a plain mean of a guess and what is measured."""

    __slots__ = ("seen", "value")

    def __init__(self, guess: float) -> None:
        self.value = guess
        self.seen = 1

    def add(self, seconds: float) -> None:
        if self.seen < _MEMORY:
            self.seen += 1
        self.value += (seconds - self.value) / self.seen


class Averages:
    """Expected seconds per model, over all backends, and how sizes change them."""

    __slots__ = ("of_model", "relations")

    def __init__(self, guesses: Mapping[str, float]) -> None:
        self.of_model = {model: Average(guess) for model, guess in guesses.items()}
        self.relations = {model: Relation() for model in guesses}

    def of(self, model: str) -> float:
        return self.of_model[model].value


class OwnAverages:
    """What one backend takes; as long as it has not done a thing, it is expected to be like the others."""

    __slots__ = ("_of_model", "of_all")

    def __init__(self, of_all: Averages) -> None:
        self.of_all = of_all
        self._of_model = of_all.of_model.copy()
        """The average of all, until there is one of its own."""

    def of(self, model: str) -> float:
        return self._of_model[model].value

    def of_size(self, model: str, size: float | None) -> float:
        """What it takes where a request told this size; `of` is the usual one."""
        return self._of_model[model].value * self.of_all.relations[model].factor(size)

    def doubt(self, model: str, size: float | None) -> float:
        """How far from that a run may be, as a share of how far it may where no size is told."""
        return self.of_all.relations[model].doubt(size)

    def add(self, model: str, seconds: float, size: float | None = None) -> None:
        """Averaged is what the usual size would have taken: a few large ones in a row change nothing."""
        usual_s = seconds
        if size is not None:
            relation = self.of_all.relations[model]
            usual_s = seconds / relation.factor(size)
            relation.learn(size, seconds)
        own, shared = self._of_model[model], self.of_all.of_model[model]
        if own is shared:
            own = self._of_model[model] = Average(shared.value)
        own.add(usual_s)
        shared.add(usual_s)


class Durations:
    """Where the averages begin: with what the configuration expects."""

    __slots__ = ("loads", "runs")

    def __init__(self, models: tuple[ModelSpec, ...]) -> None:
        self.runs = Averages({model.name: model.expected_run_s for model in models})
        self.loads = Averages({model.name: model.expected_load_s for model in models})
