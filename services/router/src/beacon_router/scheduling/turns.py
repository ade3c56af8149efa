"""Whose turn it is when several tiers starve at once: stride scheduling."""

from collections.abc import Sequence
from math import lcm


class Turns:
    """Each turn costs a tier `lcm / weight`; the tier that has paid least goes next.

    A tier that was absent starts from where the others are, so that absence earns nothing and costs
    nothing. Equal: the lighter weight first, which makes the bound in docs/scheduling.md tight.
    """

    __slots__ = ("_lightest_first", "_paid", "_prices", "_reached", "_weights", "order")

    def __init__(self, weights: Sequence[int], paid: list[int] | None = None, reached: int = 0) -> None:
        self._weights = weights
        whole = lcm(*weights)
        self._prices = [whole // weight for weight in weights]
        self._paid = paid or [0] * len(weights)
        self._reached = reached
        self._lightest_first = sorted(range(len(weights)), key=lambda rank: (weights[rank], -rank))
        self.order: list[int] = []
        """All ranks, the one that goes next first."""
        self._sort()

    def copy(self) -> "Turns":
        """The same standing, to play with."""
        return Turns(self._weights, self._paid.copy(), self._reached)

    def choose(self, starving: Sequence[int]) -> int:
        """Which of these ranks has the next turn; nothing changes until `take`."""
        return next(rank for rank in self.order if rank in starving)

    def take(self, rank: int) -> None:
        """The rank had its turn."""
        self._reached = max(self._paid[rank], self._reached)
        self._paid[rank] = self._reached + self._prices[rank]
        self._sort()

    def _sort(self) -> None:
        standing = [max(self._reached, paid) for paid in self._paid]
        self.order = sorted(self._lightest_first, key=standing.__getitem__)
