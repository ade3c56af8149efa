"""Medians, spreads and paired ratios: a figure alone means nothing on a machine whose speed varies."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

Round = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of some values, and the quartiles around it."""

    median: float
    low: float
    high: float
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        if not values:
            raise ValueError("a spread needs at least one value")
        return cls(median(values), percentile(values, 25), percentile(values, 75), len(values))


def percentile(values: Sequence[float], percent: float) -> float:
    """The value below which `percent` of the values lie, between neighbours by their distance."""
    if not values:
        raise ValueError("a percentile needs at least one value")
    ordered = sorted(values)
    place = (len(ordered) - 1) * percent / 100
    below, above = math.floor(place), math.ceil(place)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def paired_ratios(rounds: Sequence[Round], of: str, to: str) -> list[float]:
    """`of` over `to` in each round that has both, because a slow round slows both."""
    return [values[of] / values[to] for values in rounds if of in values and to in values and values[to] > 0]


def ratio(rounds: Sequence[Round], of: str, to: str) -> Spread | None:
    """The spread of the paired ratios; None when no round has both."""
    ratios = paired_ratios(rounds, of, to)
    return Spread.of(ratios) if ratios else None


def values_of(rounds: Sequence[Round], name: str) -> list[float]:
    return [values[name] for values in rounds if name in values]
