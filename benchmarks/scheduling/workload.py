"""Requests that arrive, and what their callers say of them: generated from seeded random numbers."""

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from beacon_router.scheduling import ModelSpec

TIERS = ("admin", "creator", "premium", "supporter", "free")
TIER_SHARES = (0.02, 0.08, 0.15, 0.25, 0.50)
REGION_SHARES = {"US": 1.0, "EU": 1.0, "ASIA": 1.0}
TOLD_SIGMA = 0.2
"""How well callers are assumed to know the size of what they ask for: of a lognormal factor."""


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
    """What its caller says of it; None: nothing."""

    @property
    def rank(self) -> int:
        return TIERS.index(self.tier)


@dataclass(frozen=True, slots=True)
class People:
    """Who asks for what: tenants with a fixed tier, tenants and models chosen by Zipf's law."""

    tenants: int = 300
    tenant_exponent: float = 1.0
    model_exponent: float = 1.0
    shares: tuple[float, ...] = field(default=TIER_SHARES)


def model_catalogue(count: int, seed: int) -> tuple[ModelSpec, ...]:
    """Models that load in 2 to 10 seconds and run for 2 to 8."""
    chance = random.Random(seed)
    return tuple(
        ModelSpec(
            f"model-{number:02d}",
            expected_load_s=round(chance.uniform(2, 10), 1),
            expected_run_s=round(chance.uniform(2, 8), 1),
        )
        for number in range(count)
    )


class Askers:
    """Draws tenant, tier, region and model for an arrival."""

    def __init__(self, people: People, models: tuple[ModelSpec, ...], seed: int) -> None:
        self._chance = random.Random(seed)
        self._models = models
        self._model_weights = _zipf(len(models), people.model_exponent)
        tiers = self._chance.choices(TIERS, people.shares, k=people.tenants)
        self._tenants = [(f"tenant-{number:03d}", tier) for number, tier in enumerate(tiers)]
        self._tenant_weights = _zipf(people.tenants, people.tenant_exponent)

    def ask(self, arrival_s: float, run_s: float | None = None) -> Arrival:
        tenant, tier = self._chance.choices(self._tenants, self._tenant_weights)[0]
        region = self._chance.choices(list(REGION_SHARES), list(REGION_SHARES.values()))[0]
        model = self._chance.choices(self._models, self._model_weights)[0]
        if run_s is None:
            run_s = model.expected_run_s * _lognormal(self._chance, 0.5)
        return Arrival(arrival_s, tenant, model.name, tier, region, run_s)


def poisson(rate: float, seconds: float, seed: int) -> Iterator[float]:
    """Moments of independent arrivals."""
    chance = random.Random(seed)
    now = chance.expovariate(rate)
    while now < seconds:
        yield now
        now += chance.expovariate(rate)


def bursty(rate: float, seconds: float, seed: int) -> Iterator[float]:
    """Quiet at a third of the rate for about three minutes, then four times as much for about one."""
    chance = random.Random(seed)
    now, quiet, until = 0.0, True, chance.expovariate(1 / 165)
    while now < seconds:
        now += chance.expovariate(rate / 3 if quiet else rate * 3)
        while now > until:
            quiet = not quiet
            until += chance.expovariate(1 / 165 if quiet else 1 / 55)
        if now < seconds:
            yield now


def stretched(arrivals: list[Arrival], factor: float) -> list[Arrival]:
    """The same requests, arriving `factor` times as slowly."""
    return [replace(arrival, arrival_s=arrival.arrival_s * factor) for arrival in arrivals]


def untold(arrivals: Sequence[Arrival]) -> list[Arrival]:
    """The same requests, of callers who say nothing of their size."""
    return [replace(arrival, size=None) for arrival in arrivals]


def told(arrivals: Sequence[Arrival], seed: int) -> list[Arrival]:
    """The same requests with sizes: their own, or else the true run time times a factor near 1."""
    chance = random.Random(seed)
    guesses = [arrival.run_s * _lognormal(chance, TOLD_SIGMA) for arrival in arrivals]
    return [
        replace(arrival, size=guess) if arrival.size is None else arrival
        for arrival, guess in zip(arrivals, guesses, strict=True)
    ]


def _zipf(count: int, exponent: float) -> list[float]:
    return [1 / (place**exponent) for place in range(1, count + 1)]


def _lognormal(chance: random.Random, sigma: float) -> float:
    """A factor with mean 1."""
    return math.exp(chance.gauss(-sigma * sigma / 2, sigma))
