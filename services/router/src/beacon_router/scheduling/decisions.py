"""What goes into the scheduler and what comes out of it."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, NewType

RequestId = NewType("RequestId", str)


@dataclass(frozen=True, slots=True)
class Request:
    """One inference that wants a slot. `start_by` is a moment of the same clock as every `now`."""

    id: RequestId
    model: str
    region: str
    rank: int
    pinned: bool = False
    front: bool = False
    start_by: float | None = None
    size: float | None = None
    """How much work it is, in whatever its model counts, above 0 and at most 1e12; None: not known."""


class Health(StrEnum):
    """A backend's breaker: closed takes work, open takes none, half open takes one probe at a time."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class Outcome(StrEnum):
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Reason(StrEnum):
    """Which rule chose a request."""

    GLOBAL_RETRY = "global_retry"
    REGION_RETRY = "region_retry"
    FRONT = "front"
    STARVATION = "starvation"
    AFFINITY = "affinity"
    ORDER = "order"


class Start(NamedTuple):
    """Run this request on this backend now; its slot, group and limit are already counted.

    A named tuple, because one is made in every decision and a frozen dataclass takes three times as long.
    """

    id: RequestId
    backend: str
    region: str
    needs_load: bool
    reason: Reason
    moved: bool
    """True when `region` is not the region that was asked for."""


@dataclass(frozen=True, slots=True)
class Expired:
    """Its `start_by` passed before a slot was free. The scheduler has forgotten it."""

    id: RequestId


Decision = Start | Expired


@dataclass(frozen=True, slots=True)
class Eta:
    """Seconds until the request starts."""

    p50_s: float
    p90_s: float


class Holdup(StrEnum):
    """The one thing that a waiting request waits for most directly."""

    BEHIND = "behind"
    """Slots are busy and others go first."""
    BACKENDS_FULL = "backends_full"
    """It is next; every slot that could serve it is busy."""
    REGION_FULL = "region_full"
    GROUP_CAP = "group_cap"
    MODEL_LIMIT = "model_limit"
    EXCLUSIVE = "exclusive"
    """Another run of the same model is in progress in the region."""
    STANDS_ASIDE = "stands_aside"
    """A slot is free, but a load is not worth it yet: a backend that holds its model should be free soon."""
    BREAKER_OPEN = "breaker_open"
    NO_BACKEND = "no_backend"
    """Nothing that is configured can serve it where it may run."""


@dataclass(frozen=True, slots=True)
class Why:
    """`str(why)` reads as a sentence."""

    holdup: Holdup
    region: str
    ahead: int
    backends: tuple[str, ...] = ()
    limit: str | None = None

    def __str__(self) -> str:
        named = ", ".join(self.backends) or "no backend"
        cause = _CAUSES[self.holdup].format(ahead=self.ahead, named=named, limit=self.limit)
        return f"{cause} in {self.region}"


_CAUSES = {
    Holdup.BEHIND: "behind {ahead} of those that want {named}",
    Holdup.BACKENDS_FULL: "next, but every slot of {named} is busy",
    Holdup.REGION_FULL: "next, but as much runs as the concurrency allows",
    Holdup.GROUP_CAP: "next, but {limit} is used up",
    Holdup.MODEL_LIMIT: "next, but {limit} is used up",
    Holdup.EXCLUSIVE: "next, but another run of the exclusive model is in progress",
    Holdup.STANDS_ASIDE: "waits for {named} with its model loaded rather than for a load",
    Holdup.BREAKER_OPEN: "the breaker of {named} is open",
    Holdup.NO_BACKEND: "no backend can serve it",
}
