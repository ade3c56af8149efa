"""Load and run durations of models, drawn from seeded distributions."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True)
class Constant:
    seconds: float

    def draw(self, _random: Random) -> float:
        return self.seconds


@dataclass(frozen=True, slots=True)
class Uniform:
    low: float
    high: float

    def draw(self, random: Random) -> float:
        return random.uniform(self.low, self.high)


@dataclass(frozen=True, slots=True)
class Lognormal:
    """Half of the draws are below `median`; `sigma` widens the long tail above it."""

    median: float
    sigma: float

    def draw(self, random: Random) -> float:
        return self.median * math.exp(random.gauss(0.0, self.sigma))


Distribution = Constant | Uniform | Lognormal


@dataclass(frozen=True, slots=True)
class ModelDurations:
    load: Distribution
    run: Distribution


class DurationModel:
    """The durations of every model, with a default for unknown models."""

    def __init__(
        self, models: Mapping[str, ModelDurations], *, default: ModelDurations, scale: float, random: Random
    ) -> None:
        self._models = dict(models)
        self._default = default
        self._scale = scale
        self._random = random

    @property
    def models(self) -> Mapping[str, ModelDurations]:
        return self._models

    def set(self, model: str, durations: ModelDurations) -> None:
        self._models[model] = durations

    def of(self, model: str) -> ModelDurations:
        return self._models.get(model, self._default)

    def load_s(self, model: str) -> float:
        return self.of(model).load.draw(self._random) * self._scale if self._scale else 0.0

    def run_s(self, model: str) -> float:
        return self.of(model).run.draw(self._random) * self._scale if self._scale else 0.0
