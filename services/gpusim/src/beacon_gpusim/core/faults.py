"""Fault rules: which rule, if any, applies to the next call."""

from dataclasses import dataclass
from enum import StrEnum
from random import Random


class FaultKind(StrEnum):
    ERROR = "error"  # responds with a chosen status
    HANG = "hang"  # runs until the client disconnects
    HOLD = "hold"  # runs until it is released
    SLOW_START = "slow_start"  # the load takes longer
    SLOW_RUN = "slow_run"  # the run takes longer
    CRASH = "crash"  # the process exits
    RESET = "reset"  # the connection is reset
    EMPTY = "empty"  # a valid response with an empty output
    NO_BODY = "no_body"  # 200 and nothing after the headers
    BAD_JSON = "bad_json"
    WRONG_CONTENT_TYPE = "wrong_content_type"  # an HTML page with status 200
    TRUNCATED = "truncated"  # half of the promised bytes, then the connection closes
    MISLABELLED = "mislabelled"  # an HTML page with the content type of the answer
    HUGE = "huge"  # a valid answer of `bytes`
    ENDLESS = "endless"  # an answer whose body never ends


# These end the call without a result of the model.
ENDING = frozenset({FaultKind.ERROR, FaultKind.CRASH, FaultKind.RESET})
# A run with one of these never completes on its own.
NOT_COMPLETING = ENDING | {FaultKind.HANG, FaultKind.HOLD}


@dataclass(frozen=True, slots=True)
class Fault:
    """`after_s` is the delay of an ending fault; `extra_s` is added by a slow one. Neither is scaled.

    `size` is that of a huge answer in bytes.
    """

    kind: FaultKind
    model: str | None = None
    probability: float = 1.0
    next_n: int | None = None
    status: int = 500
    retry_after_s: float | None = None
    after_s: float = 0.0
    extra_s: float = 0.0
    size: int = 0

    def ends_at_once(self) -> bool:
        return self.kind in ENDING and self.after_s <= 0


class FaultRules:
    """The rules in the order of their creation; the first that applies decides."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._rules: list[tuple[Fault, int | None]] = []

    @property
    def rules(self) -> tuple[tuple[Fault, int | None], ...]:
        """Each rule with the number of calls it still applies to (None: unlimited)."""
        return tuple(self._rules)

    def add(self, fault: Fault) -> None:
        self._rules.append((fault, fault.next_n))

    def clear(self, kind: FaultKind | None = None) -> None:
        """Delete all rules, or those of one kind."""
        self._rules = [] if kind is None else [rule for rule in self._rules if rule[0].kind is not kind]

    def decide(self, model: str) -> Fault | None:
        if not self._rules:
            return None
        for index, (fault, left) in enumerate(self._rules):
            if fault.model not in (None, model) or not self._happens(fault):
                continue
            if left is not None:
                self._count_down(index, fault, left)
            return fault
        return None

    def _happens(self, fault: Fault) -> bool:
        return fault.probability >= 1 or self._random.random() < fault.probability

    def _count_down(self, index: int, fault: Fault, left: int) -> None:
        if left > 1:
            self._rules[index] = (fault, left - 1)
        else:
            del self._rules[index]
