"""How actual waits compare with predicted ones: the factor that nine of ten waits stay under."""

from math import exp, log

from beacon_router.scheduling.state.request_queue import QueueKind

_OFFSET_S = 0.2
"""Added to both sides of a ratio, so that errors of a fraction of a second do not matter."""
_FIRST_STEP, _LAST_STEP = 0.5, 0.02
_MIN_SEEN = 30
"""Waits that must have been seen of a tier before its own factor is used."""


class RunningQuantile:
    """A quantile of a stream of numbers: a step up or down for each, of decreasing size."""

    __slots__ = ("_share", "seen", "value")

    def __init__(self, share: float, guess: float) -> None:
        self._share = share
        self.seen = 0
        self.value = guess

    def add(self, number: float) -> None:
        self.seen += 1
        step = max(_LAST_STEP, _FIRST_STEP / self.seen**0.5)
        self.value += step * (self._share - (number <= self.value))


class Calibration:
    """One factor per tier, and one for the retry queues and the paid front."""

    __slots__ = ("_of_all", "_of_tier")

    def __init__(self, tiers: int) -> None:
        self._of_all = RunningQuantile(0.9, log(2.0))
        self._of_tier = [RunningQuantile(0.9, log(2.0)) for _ in range(tiers + 1)]

    def learn(self, kind: QueueKind, rank: int, predicted: tuple[float, float], now: float) -> None:
        """A request started; `predicted` is when its wait was estimated, and the estimate."""
        asked, expected_s = predicted
        ratio = log((now - asked + _OFFSET_S) / (expected_s + _OFFSET_S))
        self._of_all.add(ratio)
        self._tier(kind, rank).add(ratio)

    def p90_s(self, kind: QueueKind, rank: int, expected_s: float) -> float:
        """What nine of ten waits stay under of which this was expected."""
        tier = self._tier(kind, rank)
        factor = exp((tier if tier.seen >= _MIN_SEEN else self._of_all).value)
        return max(expected_s, (expected_s + _OFFSET_S) * factor - _OFFSET_S)

    def _tier(self, kind: QueueKind, rank: int) -> RunningQuantile:
        return self._of_tier[rank if kind is QueueKind.MAIN else -1]
