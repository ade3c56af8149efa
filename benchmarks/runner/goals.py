"""The goals for ratios and figures, and whether they are reached."""

from dataclasses import dataclass

from benchmarks.harness.statistics import Spread
from benchmarks.harness.table import TIMES


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound for a median: at least, or at most."""

    bound: float
    at_least: bool = True
    unit: str = ""

    def __str__(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {self.bound:g}{self.unit}"

    def verdict(self, measured: Spread) -> str:
        reached = measured.median >= self.bound if self.at_least else measured.median <= self.bound
        return "reached" if reached else "missed"


def at_least(bound: float, unit: str = TIMES) -> Goal:
    return Goal(bound, at_least=True, unit=unit)


def at_most(bound: float, unit: str = TIMES) -> Goal:
    return Goal(bound, at_least=False, unit=unit)
