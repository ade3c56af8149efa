"""The inputs and outputs of the scheduler."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, NewType

RequestId = NewType("RequestId", str)


@dataclass(frozen=True, slots=True)
class Request:
    """One inference that needs a slot. `start_by` is a moment of the same clock as every `now`."""

    id: RequestId
    model: str
    region: str
    rank: int
    pinned: bool = False
    front: bool = False
    start_by: float | None = None
    size: float | None = None
    """The amount of work in the unit of its model, above 0 and at most 1e12; None: not known."""
    user: str = ""
    weight: float = 1.0
    """Of the user's share of GPU time in the tier; above 0."""
    following: int = 0
    """How many more its caller sends one after another when it ends: a forecast expects them."""
    needs: frozenset[str] = frozenset()
    """The capabilities that a backend must have."""
    backend: str | None = None
    """Its run is in progress there already: it needs a slot of this backend to be continued."""


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

    ATTACH = "attach"
    GLOBAL_RETRY = "global_retry"
    REGION_RETRY = "region_retry"
    FRONT = "front"
    STARVATION = "starvation"
    AFFINITY = "affinity"
    ORDER = "order"


class Start(NamedTuple):
    """Run this request on this backend now; its slot, group and limit are already counted."""

    id: RequestId
    backend: str
    region: str
    needs_load: bool
    reason: Reason
    moved: bool
    """True when `region` is not the requested region."""


@dataclass(frozen=True, slots=True)
class Expired:
    """Its `start_by` passed before a slot was free. It is no longer queued."""

    id: RequestId


Decision = Start | Expired


@dataclass(frozen=True, slots=True)
class Eta:
    """Seconds until the request starts."""

    p50_s: float
    p90_s: float


class Holdup(StrEnum):
    """The most direct reason why a request waits."""

    BEHIND = "behind"
    """Slots are busy and other requests are before it."""
    BACKENDS_FULL = "backends_full"
    """It is next; every slot that could serve it is busy."""
    REGION_FULL = "region_full"
    GROUP_CAP = "group_cap"
    SHARED_SLOTS = "shared_slots"
    """Other routers hold the slots."""
    MODEL_LIMIT = "model_limit"
    EXCLUSIVE = "exclusive"
    """Another run of the same model is in progress in the region."""
    WARM_WAIT = "warm_wait"
    """A slot is free, but a backend that has its model loaded is expected to be free soon."""
    RETRY_ELSEWHERE = "retry_elsewhere"
    """A slot is free where it failed; for some seconds it waits for one in another region."""
    BREAKER_OPEN = "breaker_open"
    DRAINED = "drained"
    """Its backends are drained or have no slots."""
    PAUSED = "paused"
    """Its model is paused."""
    NO_BACKEND = "no_backend"
    """No configured backend can serve it where it may run."""


@dataclass(frozen=True, slots=True)
class Why:
    """`str(why)` reads as a sentence."""

    holdup: Holdup
    region: str
    ahead: int
    """Requests that start before it, of those that compete for the same backends."""
    backends: tuple[str, ...] = ()
    limit: str | None = None

    def __str__(self) -> str:
        named = ", ".join(self.backends) or "no backend"
        cause = _CAUSES[self.holdup].format(ahead=self.ahead, named=named, limit=self.limit)
        if self.holdup in _CAPACITY:
            cause = f"behind {self.ahead} others, and {cause}" if self.ahead else f"next, but {cause}"
        return f"{cause} in {self.region}"


_CAUSES = {
    Holdup.BEHIND: "behind {ahead} of the requests for {named}",
    Holdup.BACKENDS_FULL: "every slot of {named} is busy",
    Holdup.REGION_FULL: "as many requests run as the concurrency allows",
    Holdup.GROUP_CAP: "{limit} is used up",
    Holdup.SHARED_SLOTS: "other routers hold the free slots of {named}",
    Holdup.MODEL_LIMIT: "{limit} is used up",
    Holdup.EXCLUSIVE: "another run of the exclusive model is in progress",
    Holdup.WARM_WAIT: "waits for {named} with its model loaded rather than for a load",
    Holdup.RETRY_ELSEWHERE: "waits for a slot in another region after it failed",
    Holdup.BREAKER_OPEN: "the breaker of {named} is open",
    Holdup.DRAINED: "{named} is drained or has 0 slots",
    Holdup.PAUSED: "the model is paused",
    Holdup.NO_BACKEND: "no backend can serve it",
}
_CAPACITY = frozenset(
    {
        Holdup.BACKENDS_FULL,
        Holdup.REGION_FULL,
        Holdup.GROUP_CAP,
        Holdup.SHARED_SLOTS,
        Holdup.MODEL_LIMIT,
        Holdup.EXCLUSIVE,
    }
)
