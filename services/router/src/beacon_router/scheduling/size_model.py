"""How the run times of a model depend on the sizes of requests, learned from finished runs."""

from math import sqrt
from typing import Final

_MEMORY: Final = 50
"""A new run is one of so many; the first ones count for more."""
_MIN_RUNS: Final = 10
"""Runs that must have been seen before sizes count."""
_CONSTANT: Final = 1e-6
"""Sizes or seconds whose variance is less, as a share of their squared mean, do not vary."""
_MAX_ELASTICITY: Final = 2.0
_MIN_SHARE: Final = 0.1
_MAX_SHARE: Final = 10.0
"""No run is expected to be further from the average, as a share of it, whatever size is given."""


class SizeModel:
    """A line through (size, seconds), by exponentially weighted moments."""

    __slots__ = (
        "_covariance",
        "_elasticity",
        "_residual",
        "_seconds",
        "_seconds_variance",
        "_seen",
        "_size",
        "_size_variance",
    )

    def __init__(self) -> None:
        self._seen = 0
        self._size = 0.0
        self._seconds = 0.0
        self._size_variance = 0.0
        self._seconds_variance = 0.0
        self._covariance = 0.0
        self._elasticity = 0.0
        """By what share a run takes longer, for each share by which it is larger."""
        self._residual = 1.0

    def seconds(self, size: float | None) -> float | None:
        """What a run of this size takes; None while that is not known."""
        if size is None or self._elasticity == 0.0:
            return None
        share = 1.0 + self._elasticity * (size / self._size - 1.0)
        return self._seconds * clamp(share)

    def uncertainty(self, size: float | None) -> float:
        """What is left of the spread of run times when the size is known; 1 while nothing is known."""
        return 1.0 if size is None else self._residual

    def learn(self, size: float, seconds: float) -> None:
        """A run of this size took so long."""
        if self._seen >= _MIN_RUNS:
            size = min(size, _MAX_SHARE * self._size)  # one absurd size must not hide the others
        if self._seen < _MEMORY:
            self._seen += 1
        share = 1.0 / self._seen
        larger, longer = size - self._size, seconds - self._seconds
        self._size += share * larger
        self._seconds += share * longer
        self._size_variance = (1.0 - share) * (self._size_variance + share * larger * larger)
        self._seconds_variance = (1.0 - share) * (self._seconds_variance + share * longer * longer)
        self._covariance = (1.0 - share) * (self._covariance + share * larger * longer)
        self._fit()

    def _fit(self) -> None:
        """The slope of the line, and how far runs are from it."""
        self._elasticity, self._residual = 0.0, 1.0
        if self._seen < _MIN_RUNS or self._covariance <= 0.0:
            return
        if (
            self._size_variance <= _CONSTANT * self._size**2
            or self._seconds_variance <= _CONSTANT * self._seconds**2
        ):
            return
        slope = self._covariance / self._size_variance
        self._elasticity = min(_MAX_ELASTICITY, slope * self._size / self._seconds)
        self._residual = sqrt(max(0.0, 1.0 - slope * self._covariance / self._seconds_variance))


def clamp(share: float) -> float:
    return min(_MAX_SHARE, max(_MIN_SHARE, share))
