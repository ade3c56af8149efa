"""Those who wait for one model, weighed: how many, of which tier, how long the first of them has waited."""

from collections.abc import Iterable, Sequence
from math import fsum
from typing import NamedTuple

from beacon_router.scheduling.lanes import Lane


class Crowd(NamedTuple):
    """Its weight grows by `pace` every second: weight = pace x moment - begun."""

    pace: int
    begun: float

    def weighs_at(self, weight: float) -> float:
        """The moment at which it weighs so much, if nobody comes or goes."""
        return (weight + self.begun) / self.pace


def crowd_of(lanes: Iterable[Lane], weights: Sequence[int]) -> Crowd:
    """Of lanes in which somebody waits. The sum is exact, so that their order does not matter."""
    pace = 0
    begun: list[float] = []
    for lane in lanes:
        each = weights[lane.rank] * lane.live
        pace += each
        begun.append(each * lane.head.arrived)
    return Crowd(pace, fsum(begun))
