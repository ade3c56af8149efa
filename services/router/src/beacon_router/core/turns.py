"""Whose turn it is when several tiers starve at once: stride scheduling."""

from collections.abc import Sequence
from math import lcm


class Turns:
    """Each turn costs a tier `lcm / weight`; the tier that has paid least goes next.

    A tier that was absent starts from where the others are, so that absence earns nothing and costs
    nothing. Equal: the lighter weight first, which makes the bound in docs/scheduling.md tight.
    """

    __slots__ = ("_paid", "_prices", "_reached", "_weights")

    def __init__(self, weights: Sequence[int], paid: list[int] | None = None, reached: int = 0) -> None:
        self._weights = weights
        whole = lcm(*weights)
        self._prices = [whole // weight for weight in weights]
        self._paid = paid or [0] * len(weights)
        self._reached = reached

    def copy(self) -> "Turns":
        """The same standing, to play with."""
        return Turns(self._weights, self._paid.copy(), self._reached)

    def choose(self, starving: Sequence[int]) -> int:
        """Which of these ranks, given in order, has the next turn; nothing changes until `take`."""
        paid, prices, reached = self._paid, self._prices, self._reached
        best, least = -1, 0
        for rank in starving:
            mine = max(reached, paid[rank])
            if best < 0 or mine < least or (mine == least and prices[rank] >= prices[best]):
                best, least = rank, mine
        return best

    def take(self, rank: int) -> None:
        """The rank had its turn."""
        self._reached = max(self._paid[rank], self._reached)
        self._paid[rank] = self._reached + self._prices[rank]
