"""One call with its outcome, and the ledger of all calls."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from beacon_gpusim.core.faults import Fault


class CallOutcome(StrEnum):
    COMPLETED = "completed"
    ABORTED = "aborted"  # the client disconnected; the slot was freed then
    REFUSED = "refused"  # no free slot
    ERROR = "error"
    CRASHED = "crashed"
    RESET = "reset"


@dataclass(slots=True)
class Call:
    """`arrived`, `started` and `ended` are readings of the machine's monotonic clock.

    `concurrent` counts the calls that held a slot at its arrival, including itself.
    """

    seq: int
    request_id: str
    dialect: str
    model: str
    region: str
    arrived: float
    concurrent: int
    fault: Fault | None = None
    started: float | None = None
    load_s: float = 0.0
    run_s: float = 0.0
    ended: float | None = None
    outcome: CallOutcome | None = None
    at: float = 0.0
    """Arrival as Unix time, for display only."""

    def share_done(self, now: float) -> float:
        """The share of the run that is done, from 0 to 1. A run without an end counts as ten seconds long."""
        if self.started is None:
            return 0.0
        run_s = self.run_s if 0.0 < self.run_s < 1e9 else 10.0
        return min(0.99, max(0.0, (now - self.started) / run_s))

    def record(self) -> dict[str, Any]:
        """The call as the ledger shows it; an outcome of None means that it is running."""
        return {
            "seq": self.seq,
            "request_id": self.request_id,
            "dialect": self.dialect,
            "model": self.model,
            "region": self.region,
            "at": self.at,
            "arrived": self.arrived,
            "concurrent": self.concurrent,
            "fault": None if self.fault is None else self.fault.kind.value,
            "started": self.started,
            "load_s": self.load_s,
            "run_s": self.run_s,
            "ended": self.ended,
            "outcome": None if self.outcome is None else self.outcome.value,
        }


class CallLedger:
    """The last calls, oldest first, up to a bound."""

    def __init__(self, size: int) -> None:
        self._calls: deque[Call] = deque(maxlen=size)

    def __len__(self) -> int:
        return len(self._calls)

    def add(self, call: Call) -> None:
        self._calls.append(call)

    def clear(self) -> None:
        """Delete ended calls; running calls stay, so that their end is recorded."""
        alive = [call for call in self._calls if call.outcome is None]
        self._calls.clear()
        self._calls.extend(alive)

    def select(
        self, *, since: float | None = None, model: str | None = None, request_id: str | None = None
    ) -> Iterator[Call]:
        """The calls that arrived at `since` or later, of this model, with this request id."""
        for call in self._calls:
            if (
                (since is None or call.arrived >= since)
                and (model is None or call.model == model)
                and (request_id is None or call.request_id == request_id)
            ):
                yield call
