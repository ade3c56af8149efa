"""Weighted turns of the tiers while one of them starves: stride scheduling."""

from collections.abc import Collection, Sequence
from math import lcm


class StrideScheduler:
    """Each turn costs a tier `lcm / weight`; the tier that has paid least has the next turn.

    A tier that was absent starts where the others are: absence earns nothing and costs nothing. Equal
    cost: the tier with the larger weight first, then the higher tier.
    """

    __slots__ = ("_order", "_paid", "_prices", "_reached", "_weights")

    def __init__(self, weights: Sequence[int], paid: Sequence[int] = (), reached: int = 0) -> None:
        self._weights = weights
        whole = lcm(*weights)
        self._prices = [whole // weight for weight in weights]
        self._order = sorted(range(len(weights)), key=lambda rank: (-weights[rank], rank))
        self._paid = list(paid) or [0] * len(weights)
        self._reached = reached

    def choose(self, ranks: Collection[int]) -> int:
        """Which of these ranks has the next turn; `take` records it."""
        reached, paid = self._reached, self._paid
        return min((rank for rank in self._order if rank in ranks), key=lambda rank: max(reached, paid[rank]))

    def take(self, rank: int) -> None:
        """The rank had its turn."""
        self._reached = max(self._paid[rank], self._reached)
        self._paid[rank] = self._reached + self._prices[rank]

    def fork(self) -> "StrideScheduler":
        """An independent copy for a forecast."""
        return StrideScheduler(self._weights, self._paid, self._reached)
