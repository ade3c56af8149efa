"""Arrivals of requests, generated from seeded random numbers."""

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from beacon_router.scheduling import ModelSpec

TIERS = ("admin", "creator", "premium", "supporter", "free")
TIER_SHARES = (0.02, 0.08, 0.15, 0.25, 0.50)
REGIONS = ("US", "EU", "ASIA")
TENANTS = 300
SIZE_SIGMA = 0.2
"""Of the lognormal error of the sizes that clients are assumed to send."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """One row of a trace; `model` and `tier` are names."""

    arrival_s: float
    tenant: str
    model: str
    tier: str
    region: str
    run_s: float
    size: float | None = None
    """As the client states it; None: it does not."""

    @property
    def rank(self) -> int:
        return TIERS.index(self.tier)


def model_catalogue(count: int, seed: int) -> tuple[ModelSpec, ...]:
    """Models that load in 2 to 10 seconds and run for 2 to 8."""
    generator = random.Random(seed)
    return tuple(
        ModelSpec(
            f"model-{number:02d}",
            expected_load_s=round(generator.uniform(2, 10), 1),
            expected_run_s=round(generator.uniform(2, 8), 1),
        )
        for number in range(count)
    )


class WorkloadGenerator:
    """Draws tenant, tier, region and model of an arrival: tenants have a fixed tier; tenants and models are
    chosen by Zipf's law."""

    def __init__(self, models: tuple[ModelSpec, ...], seed: int, tenants: int = TENANTS) -> None:
        self._random = random.Random(seed)
        self._models = models
        self._model_weights = _zipf(len(models))
        tiers = self._random.choices(TIERS, TIER_SHARES, k=tenants)
        self._tenants = [(f"tenant-{number:03d}", tier) for number, tier in enumerate(tiers)]
        self._tenant_weights = _zipf(tenants)

    def arrival(self, arrival_s: float, run_s: float | None = None) -> Arrival:
        tenant, tier = self._random.choices(self._tenants, self._tenant_weights)[0]
        region = self._random.choice(REGIONS)
        model = self._random.choices(self._models, self._model_weights)[0]
        if run_s is None:
            run_s = model.expected_run_s * _lognormal(self._random, 0.5)
        return Arrival(arrival_s, tenant, model.name, tier, region, run_s)


def poisson(rate: float, seconds: float, seed: int) -> Iterator[float]:
    """Moments of independent arrivals."""
    generator = random.Random(seed)
    now = generator.expovariate(rate)
    while now < seconds:
        yield now
        now += generator.expovariate(rate)


def bursty(rate: float, seconds: float, seed: int) -> Iterator[float]:
    """A third of the rate for about three minutes, then four times as much for about one."""
    generator = random.Random(seed)
    now, quiet, until = 0.0, True, generator.expovariate(1 / 165)
    while now < seconds:
        now += generator.expovariate(rate / 3 if quiet else rate * 3)
        while now > until:
            quiet = not quiet
            until += generator.expovariate(1 / 165 if quiet else 1 / 55)
        if now < seconds:
            yield now


def stretched(arrivals: list[Arrival], factor: float) -> list[Arrival]:
    """The same requests, arriving `factor` times as slowly."""
    return [replace(arrival, arrival_s=arrival.arrival_s * factor) for arrival in arrivals]


def without_sizes(arrivals: Sequence[Arrival]) -> list[Arrival]:
    return [replace(arrival, size=None) for arrival in arrivals]


def with_sizes(arrivals: Sequence[Arrival], seed: int) -> list[Arrival]:
    """The same requests with sizes: their own, else the true run time times a factor near 1."""
    generator = random.Random(seed)
    guesses = [arrival.run_s * _lognormal(generator, SIZE_SIGMA) for arrival in arrivals]
    return [
        replace(arrival, size=guess) if arrival.size is None else arrival
        for arrival, guess in zip(arrivals, guesses, strict=True)
    ]


def _zipf(count: int) -> list[float]:
    return [1 / place for place in range(1, count + 1)]


def _lognormal(generator: random.Random, sigma: float) -> float:
    """A factor with mean 1."""
    return math.exp(generator.gauss(-sigma * sigma / 2, sigma))
