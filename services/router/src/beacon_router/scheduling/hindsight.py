"""What past estimates were worth: how actual waits compare with them, as running quantiles."""

from math import exp, log

_FLOOR_S = 0.2
"""Added to both sides of a ratio: nobody minds an error of so little."""
_STEP, _LEAST_STEP = 0.5, 0.02
_ENOUGH = 30
"""So many must have been seen of a tier before its own experience counts."""
_SCALES = 12
_LONG = 7
"""From this scale on (16 s), experience comes late, and from those first who were lucky: p90 aims higher."""


class Quantile:
    """A quantile of numbers that come one by one: a step up or down for each, ever smaller to a limit."""

    __slots__ = ("_seen", "_share", "value")

    def __init__(self, share: float, guess: float) -> None:
        self._share = share
        self._seen = 0
        self.value = guess

    def add(self, number: float) -> None:
        self._seen += 1
        step = max(_LEAST_STEP, _STEP / self._seen**0.5)
        self.value += step * (self._share - (number <= self.value))


class Experience:
    """Logarithms of actual over expected waits."""

    __slots__ = ("p50", "p90", "seen")

    def __init__(self, scale: int) -> None:
        self.seen = 0
        self.p50 = Quantile(0.5, 0.0)
        self.p90 = Quantile(0.9 if scale < _LONG else 0.95, log(2.0))

    def add(self, number: float) -> None:
        self.seen += 1
        self.p50.add(number)
        self.p90.add(number)


class Hindsight:
    """Long waits are foretold better than short ones, and those of some tiers better than of others."""

    __slots__ = ("_of_all", "_of_kind")

    def __init__(self, kinds: int) -> None:
        self._of_all = [Experience(scale) for scale in range(_SCALES)]
        self._of_kind = [[Experience(scale) for scale in range(_SCALES)] for _ in range(kinds)]

    def learn(self, kind: int, expected_s: float, waited_s: float) -> None:
        number = log((waited_s + _FLOOR_S) / (expected_s + _FLOOR_S))
        scale = _scale(expected_s)
        self._of_all[scale].add(number)
        self._of_kind[kind][scale].add(number)

    def corrected(self, kind: int, expected_s: float) -> tuple[float, float]:
        """The median, and what nine of ten waits stay under."""
        scale = _scale(expected_s)
        known = self._of_kind[kind][scale]
        if known.seen < _ENOUGH:
            ratios = [1.0, max(1.0, exp(self._of_all[scale].p90.value))]
        else:
            ratios = sorted((exp(known.p50.value), exp(known.p90.value)))
        p50_s, p90_s = (max(0.0, (expected_s + _FLOOR_S) * ratio - _FLOOR_S) for ratio in ratios)
        return p50_s, p90_s


def _scale(expected_s: float) -> int:
    """Doubles from one to the next, beginning at a quarter of a second."""
    scale = 0
    limit = 0.25
    while expected_s > limit and scale < _SCALES - 1:
        scale += 1
        limit *= 2
    return scale
