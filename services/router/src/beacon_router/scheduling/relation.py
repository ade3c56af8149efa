"""How run times of a model follow the sizes that requests tell, learned from those that have run."""

from math import sqrt
from typing import Final

_MEMORY: Final = 50
"""A new run is one of so many; the first ones count for more."""
_ENOUGH: Final = 10
"""So many must have been seen before sizes count."""
_ALIKE: Final = 1e-6
"""Sizes or seconds whose variance is less, as a share of their mean squared, do not vary."""
_STEEPEST: Final = 2.0
_LEAST: Final = 0.1
_MOST: Final = 10.0
"""No run is expected to be further from the average, as a share of it, whatever its caller says."""


class Relation:
    """A line through (size, seconds), by exponentially weighted moments."""

    __slots__ = ("_covariance", "_elasticity", "_left", "_seconds", "_seen", "_size", "_spread", "_variance")

    def __init__(self) -> None:
        self._seen = 0
        self._size = 0.0
        self._seconds = 0.0
        self._variance = 0.0
        """Of sizes,"""
        self._spread = 0.0
        """of seconds,"""
        self._covariance = 0.0
        """and of both."""
        self._elasticity = 0.0
        """By what share a run takes longer, for each share by which it is larger."""
        self._left = 1.0

    def seconds(self, size: float | None) -> float | None:
        """What a run of this size takes; None as far as nothing is known."""
        if size is None or self._elasticity == 0.0:
            return None
        share = 1.0 + self._elasticity * (size / self._size - 1.0)
        return self._seconds * within_reason(share)

    def doubt(self, size: float | None) -> float:
        """What is left of the spread of run times where this size is told; 1 as far as nothing is known."""
        return 1.0 if size is None else self._left

    def learn(self, size: float, seconds: float) -> None:
        """A run of this size took so long."""
        if self._seen >= _ENOUGH:
            size = min(size, _MOST * self._size)  # or one absurd size would hide what all others say
        if self._seen < _MEMORY:
            self._seen += 1
        share = 1.0 / self._seen
        larger, longer = size - self._size, seconds - self._seconds
        self._size += share * larger
        self._seconds += share * longer
        self._variance = (1.0 - share) * (self._variance + share * larger * larger)
        self._spread = (1.0 - share) * (self._spread + share * longer * longer)
        self._covariance = (1.0 - share) * (self._covariance + share * larger * longer)
        self._draw()

    def _draw(self) -> None:
        """The line, and how far from it runs are."""
        self._elasticity, self._left = 0.0, 1.0
        if self._seen < _ENOUGH or self._covariance <= 0.0:
            return
        if self._variance <= _ALIKE * self._size**2 or self._spread <= _ALIKE * self._seconds**2:
            return
        slope = self._covariance / self._variance
        self._elasticity = min(_STEEPEST, slope * self._size / self._seconds)
        self._left = sqrt(max(0.0, 1.0 - slope * self._covariance / self._spread))


def within_reason(share: float) -> float:
    return min(_MOST, max(_LEAST, share))
