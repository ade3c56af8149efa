"""What the runner asks of the router, and what it answers."""

from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field

from beacon_contracts.failures import Failure
from beacon_contracts.model import Name, RequestModel, ResponseModel, Text
from beacon_contracts.tiers import Tier

HIGHEST_FENCE = 2**62


class Failover(StrEnum):
    ANY = "any"
    PINNED = "pinned"


class InferenceState(StrEnum):
    QUEUED = "queued"
    WARMING = "warming"
    RUNNING = "running"
    BACKOFF = "backoff"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def terminal(self) -> bool:
        return self in _TERMINAL


_TERMINAL = {InferenceState.COMPLETED, InferenceState.FAILED, InferenceState.CANCELLED}


class StepMeta(RequestModel):
    """Which step of a pipeline this is; the `execute` dialect hands it to the backend."""

    job_id: Annotated[Text, Field(max_length=80)]
    step_index: Annotated[int, Field(strict=True, ge=0, le=1000)] = 0
    attempt: Annotated[int, Field(strict=True, ge=1, le=1000)] = 1


class InferenceRequest(RequestModel):
    """`request_id` names the work, not the call: the same id twice joins the run that exists.

    `fence` only grows; a higher fence takes the request over, and runs it again if it has failed or was
    cancelled. A completed one is answered from memory whatever the fence.
    """

    request_id: Annotated[Text, Field(min_length=1, max_length=120)]
    model: Name
    region: Name
    input: dict[str, Any]
    params: dict[str, Any] = Field(default_factory=dict)
    context: dict[str, Any] = Field(default_factory=dict)
    tier: Tier = Tier.FREE
    user_id: Annotated[Text, Field(max_length=120)] = ""
    failover: Failover = Failover.ANY
    fence: Annotated[int, Field(strict=True, ge=0, le=HIGHEST_FENCE)] = 0
    start_by: (
        Annotated[float, Field(strict=True, ge=0, le=1e11, description="Unix time; not started by then: 504")]
        | None
    ) = None
    timeout_s: (
        Annotated[
            float,
            Field(
                strict=True,
                gt=0,
                le=86_400,
                description="Longest run; a model's own `run_timeout_s` may be shorter",
            ),
        ]
        | None
    ) = None
    front: Annotated[bool, Field(strict=True)] = False
    meta: StepMeta | None = None


class Timing(ResponseModel):
    """Seconds spent in each part of the way; the sum is what the caller waited."""

    queued_s: float = 0.0
    load_s: float = 0.0
    run_s: float = 0.0


class InferenceAttemptView(ResponseModel):
    """One attempt of the router on one backend."""

    number: int
    region: str
    backend: str
    outcome: str
    failure: Failure | None = None
    timing: Timing


class EtaView(ResponseModel):
    p50_s: float
    p90_s: float


class InferenceView(ResponseModel):
    """The answer to POST and GET: a result when terminal, otherwise where it stands."""

    request_id: str
    state: InferenceState
    model: str
    requested_region: str
    actual_region: str | None = None
    backend: str | None = None
    fence: int
    output: Any = None
    failure: Failure | None = None
    position: int | None = None
    eta: EtaView | None = None
    waiting_for: str | None = None
    timing: Timing = Timing()
    tries: list[InferenceAttemptView] = Field(default_factory=list)
