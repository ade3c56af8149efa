"""The state of a router: queues, runs, backends and limits, for the runner and status pages."""

from pydantic import Field

from beacon_contracts.inference import EtaView
from beacon_contracts.model import ResponseModel
from beacon_contracts.tiers import Tier

STARTING = "starting"


class BreakerStatus(ResponseModel):
    """The circuit breaker of a backend."""

    state: str
    """closed, open, half_open, or starting: it is scaled to zero, and its work waits for an instance."""
    failures_in_a_row: int = 0
    probe_in_s: float | None = None
    health_check: str = "unknown"
    """up, down, or unknown before the first check."""
    cause: str | None = None
    """Why it takes no work; never contains text of the backend."""
    cause_code: str | None = None


class BackendStatus(ResponseModel):
    """A backend: its slots, loaded model, limits and breaker."""

    name: str
    region: str
    group: str | None = None
    slots: int
    busy: int
    models: list[str] = Field(default_factory=list)
    """The models that it serves."""
    loaded_models: list[str] = Field(default_factory=list)
    last_model: str | None = None
    batch: int = 0
    breaker: BreakerStatus


class RunningInference(ResponseModel):
    """An inference that is on a GPU."""

    request_id: str
    model: str
    backend: str
    tier: Tier
    running_s: float
    warming: bool = False


class ModelForecast(ResponseModel):
    """The expected wait of a new request for a model in a region.

    `wait_s`: by tier, for a user without waiting requests. `free` requests can start at once, and the next
    one waits `then_s`. Each further request ahead adds `pace_s`.
    """

    wait_s: dict[Tier, float]
    pace_s: float
    free: int = 0
    then_s: float = 0.0


class ModelWork(ResponseModel):
    """The requests for a model that wait in a region or run there."""

    waiting: int
    running: int
    ahead_s: float
    """The expected GPU seconds of these requests, without loads."""
    run_s: float
    """The seconds of one run, as measured."""
    load_s: float
    slots: int
    """Slots of the backends that serve the model and take work."""


class UserForecast(ResponseModel):
    """A user's waiting requests, the expected wait of one more, and the seconds between their starts."""

    waiting: int
    next_s: float
    pace_s: float


class RegionStatus(ResponseModel):
    """Queue sizes and runs of a region, and the estimated wait of a new request by model."""

    region: str
    concurrency: int
    main: int
    front: int
    retry: int
    running: list[RunningInference] = Field(default_factory=list)
    completed: int
    failed: int
    cancelled: int
    by_model: dict[str, int] = Field(default_factory=dict)
    by_tier: dict[Tier, int] = Field(default_factory=dict)
    requests_by_user: dict[str, int] = Field(default_factory=dict)
    """Waiting in the main queue or running. With `fairness = "fifo"` all have an empty name."""
    estimated_wait: dict[str, EtaView] = Field(default_factory=dict)
    forecast: dict[str, ModelForecast] = Field(default_factory=dict)
    """By model; only models that a backend can run now."""
    work: dict[str, ModelWork] = Field(default_factory=dict)
    """By model. Requests that wait for a global retry count in the region where they failed."""
    slots: int
    busy: int
    healthy: bool
    backends: list[BackendStatus] = Field(default_factory=list)


class LimitStatus(ResponseModel):
    """A limit that is shared by backends or routers."""

    name: str
    kind: str
    cap: int
    held: int
    used: int


class QueueStatus(ResponseModel):
    """Queues, runs and limits of a router, by region."""

    regions: dict[str, RegionStatus]
    global_retry: int
    backing_off: int
    waiting: int
    running: int
    groups: dict[str, LimitStatus] = Field(default_factory=dict)
    model_limits: dict[str, LimitStatus] = Field(default_factory=dict)
    users: dict[str, dict[Tier, dict[str, dict[str, UserForecast]]]] = Field(default_factory=dict)
    """Forecasts by region, tier, user and model that can run. The users with the most waiting requests have
    one for each model, the others for the models that they wait for. With `fairness = "fifo"` all users share
    one entry with an empty name."""
    held_bytes: int
    stopping: bool = False


class SchedulerView(ResponseModel):
    """The state and the settings of the scheduler, in the form of `GET /status`."""

    last_model_used: str | None = None
    batch_count: int = 0
    max_batch_size: int
    starvation_timeouts: dict[Tier, float]
    starvation_weights: dict[Tier, int]


class SchedulerStatus(ResponseModel):
    """The scheduler with the estimated wait of a new request by model."""

    status: str
    scheduler: SchedulerView
    estimated_wait: dict[str, float]
    waiting: int
    running: int
