"""The scheduler's state for status pages: plain values that do not change afterwards."""

from dataclasses import dataclass

from beacon_router.scheduling.decisions import Eta, Health, RequestId
from beacon_router.scheduling.state.topology import LimitName


@dataclass(frozen=True, slots=True)
class BackendSnapshot:
    name: str
    region: str
    group: str | None
    health: Health
    slots: int
    busy: int
    models: tuple[str, ...]
    loaded: tuple[str, ...]
    """Most recently used last."""
    last_model: str | None
    batch: int
    """Affinity starts since the last start in order, of the backends of its region with the same models."""
    used_at: int
    """The number of its last dispatch."""


@dataclass(frozen=True, slots=True)
class RunSnapshot:
    id: RequestId
    model: str
    backend: str
    rank: int
    started_at: float
    loading: bool


@dataclass(frozen=True, slots=True)
class ForecastSnapshot:
    waits_s: tuple[float, ...]
    """By rank, of a new request of a user without waiting ones."""
    pace_s: float
    """Between two starts."""
    free: int
    """How many can start at once,"""
    then_s: float
    """and how long the next one waits when so many have started."""


@dataclass(frozen=True, slots=True)
class UserForecastSnapshot:
    waiting: int
    next_s: float
    """What one more request would wait."""
    pace_s: float
    """Between two starts of the user's requests."""


@dataclass(frozen=True, slots=True)
class WorkSnapshot:
    """The requests for a model that wait in a region, also those that failed there, or that run there."""

    waiting: int
    running: int
    ahead_s: float
    """The GPU seconds that they are expected to take, without loads."""
    run_s: float
    """The expected seconds of one run."""
    load_s: float
    slots: int
    """Of the backends that serve the model and take work."""


@dataclass(frozen=True, slots=True)
class RegionSnapshot:
    name: str
    concurrency: int
    main: int
    """Waiting in the main queue, paid front included."""
    front: int
    retry: int
    running: tuple[RunSnapshot, ...]
    completed: int
    failed: int
    cancelled: int
    by_model: dict[str, int]
    """Waiting in the region's own queues."""
    by_rank: tuple[int, ...]
    requests_by_user: dict[str, int]
    """Waiting in the main queue or running."""
    estimated_wait: dict[str, Eta]
    """Of a new request of the lowest tier, per model that a backend of the region can run now."""
    work: dict[str, WorkSnapshot]
    """Per model that a backend of the region serves, or that is asked for there."""
    forecasts: dict[str, ForecastSnapshot]
    """Per model that a backend of the region can run now."""
    by_user: tuple[dict[str, dict[str, UserForecastSnapshot]], ...]
    """By rank, user and model the waiting requests in the main queue; models without limits share a name."""
    backends: tuple[BackendSnapshot, ...]


@dataclass(frozen=True, slots=True)
class LimitSnapshot:
    name: LimitName
    cap: int
    held: int
    """How much of the cap this scheduler may use now."""
    used: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    global_retry: int
    regions: tuple[RegionSnapshot, ...]
    limits: tuple[LimitSnapshot, ...]
