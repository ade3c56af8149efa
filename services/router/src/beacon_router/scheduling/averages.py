"""Moving averages of what loads and runs take, per backend and model."""

from collections.abc import Mapping

from beacon_router.scheduling.relation import Relation, within_reason
from beacon_router.scheduling.topology import ModelSpec

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

    __slots__ = ("_of_model", "_paces", "of_all")

    def __init__(self, of_all: Averages) -> None:
        self.of_all = of_all
        self._of_model = of_all.of_model.copy()
        """The average of all, until there is one of its own."""
        self._paces: dict[str, Average] = {}
        """By model whose sizes count: its seconds, as a share of what such a size takes anywhere."""

    def of(self, model: str) -> float:
        return self._of_model[model].value

    def of_size(self, model: str, size: float | None) -> float:
        """What it takes where a request tells this size; the average as far as that says nothing."""
        expected_s = self.of_all.relations[model].seconds(size)
        if expected_s is None:
            return self._of_model[model].value
        pace = self._paces.get(model)
        return expected_s if pace is None else expected_s * pace.value

    def doubt(self, model: str, size: float | None) -> float:
        """How far from that a run may be, as a share of how far it may where no size is told."""
        return self.of_all.relations[model].doubt(size)

    def add(self, model: str, seconds: float, size: float | None = None) -> None:
        if size is not None:
            self._compare(model, seconds, size)
        own, shared = self._of_model[model], self.of_all.of_model[model]
        if own is shared:
            own = self._of_model[model] = Average(shared.value)
        own.add(seconds)
        shared.add(seconds)

    def _compare(self, model: str, seconds: float, size: float) -> None:
        relation = self.of_all.relations[model]
        expected_s = relation.seconds(size)
        if expected_s is not None and expected_s > 0.0:
            self._paces.setdefault(model, Average(1.0)).add(within_reason(seconds / expected_s))
        relation.learn(size, seconds)


class Durations:
    """Where the averages begin: with what the configuration expects."""

    __slots__ = ("loads", "runs")

    def __init__(self, models: tuple[ModelSpec, ...]) -> None:
        self.runs = Averages({model.name: model.expected_run_s for model in models})
        self.loads = Averages({model.name: model.expected_load_s for model in models})
