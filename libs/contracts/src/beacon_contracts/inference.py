"""Requests of the runner to the router, and the responses."""

from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field

from beacon_contracts.capabilities import Capability
from beacon_contracts.failures import Failure
from beacon_contracts.files import InputFile, OutputFile
from beacon_contracts.model import Name, RequestModel, ResponseModel, Text
from beacon_contracts.tiers import ShareWeight, Tier

HIGHEST_FENCE = 2**62
MAX_BATCH_ENTRIES = 1_000


class Failover(StrEnum):
    """Whether an execution may run in another region than the requested one."""

    ANY = "any"
    PINNED = "pinned"


class InferenceState(StrEnum):
    """States of an inference at the router."""

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

    @property
    def on_gpu(self) -> bool:
        return self in _ON_GPU


_TERMINAL = {InferenceState.COMPLETED, InferenceState.FAILED, InferenceState.CANCELLED}
_ON_GPU = {InferenceState.WARMING, InferenceState.RUNNING}


class StepMeta(RequestModel):
    """The step of a pipeline; the `execute` dialect passes it to the backend."""

    job_id: Annotated[Text, Field(max_length=80)]
    step_index: Annotated[int, Field(strict=True, ge=0, le=1000)] = 0
    attempt: Annotated[int, Field(strict=True, ge=1, le=1000)] = 1


class RemoteRun(RequestModel):
    """A run at a submit-and-poll backend.

    With it, another router continues the run instead of repeating it.
    """

    backend: Name
    run_id: Annotated[Text, Field(min_length=1, max_length=500, description="The backend's own id of it")]


class RunProgress(ResponseModel):
    """The last progress report of a run. Fields that the backend does not report are null."""

    percent: Annotated[float, Field(ge=0, le=100)] | None = None
    message: Annotated[Text, Field(max_length=200)] | None = None
    preview: (
        Annotated[
            Text, Field(max_length=65_536, description="A small image as a data URL: PNG, JPEG or WebP")
        ]
        | None
    ) = None


class InferenceRequest(RequestModel):
    """`request_id` identifies the work: a second request with the same id joins the existing run.

    A request with a higher `fence` takes over, and runs again if the run has failed or was cancelled.
    The result of a completed run is returned for any fence.
    """

    request_id: Annotated[Text, Field(min_length=1, max_length=120)]
    model: Name
    region: Name | None = Field(
        default=None, description="Default: the region with the shortest estimated wait"
    )
    input: dict[str, Any]
    params: dict[str, Any] = Field(default_factory=dict)
    context: dict[str, Any] = Field(default_factory=dict)
    files: list[InputFile] = Field(default_factory=list, description="The files that `input` names")
    tier: Tier | None = Field(default=None, description="Default: the lowest tier, also for unknown names")
    user_id: Annotated[Text, Field(max_length=120)] = ""
    weight: ShareWeight = 1.0
    following: Annotated[int, Field(strict=True, ge=0)] = Field(
        default=0,
        description="Further executions of its job, of which the caller sends the next one when this one "
        "ends",
    )
    failover: Failover = Failover.ANY
    fence: Annotated[int, Field(strict=True, ge=0, le=HIGHEST_FENCE)] = 0
    start_by: (
        Annotated[
            float,
            Field(strict=True, ge=0, le=1e11, description="Unix time; 504 if it has not started by then"),
        ]
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
    remote: RemoteRun | None = Field(
        default=None,
        description="The run of an earlier attempt, which may still be in progress at its backend",
    )
    needs: list[Capability] = Field(
        default_factory=list, description="Capabilities that the backend must have"
    )
    stream: Annotated[
        bool,
        Field(strict=True, description="With `Accept: text/event-stream`: the backend streams, if it can"),
    ] = False
    meta: StepMeta | None = None


class Timing(ResponseModel):
    """Seconds in the queue, loading the model and running; the sum is the caller's wait."""

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
    """The median and the 90th percentile of an estimated wait, in seconds."""

    p50_s: float
    p90_s: float


class InferenceView(ResponseModel):
    """The result of an inference, or its state while it has none."""

    request_id: str
    state: InferenceState
    model: str
    requested_region: str
    actual_region: str | None = None
    backend: str | None = None
    fence: int
    output: Any = None
    response: dict[str, Any] | None = Field(
        default=None, description="The complete response of an OpenAI-compatible backend"
    )
    usage: dict[str, int] | None = Field(default=None, description="Tokens, where the backend counts them")
    files: list[OutputFile] = Field(default_factory=list, description="The files that `output` refers to")
    remote: RemoteRun | None = Field(
        default=None,
        description="The run at a submit-and-poll backend, from the time its id is known until its end",
    )
    progress: RunProgress | None = Field(default=None, description="The last progress report of its backend")
    failure: Failure | None = None
    position: int | None = None
    eta: EtaView | None = None
    waiting_for: str | None = None
    timing: Timing = Timing()
    tries: list[InferenceAttemptView] = Field(default_factory=list)


class InferenceBatch(RequestModel):
    """Many inferences in one exchange: new requests, and ids of inferences that the router holds already."""

    requests: list[InferenceRequest] = Field(default_factory=list)
    poll: list[str] = Field(default_factory=list)


class BatchAnswer(ResponseModel):
    """One line of the response to a batch: the answer of the single route to this entry.

    `request_id` is null for an entry without a valid id. Status 102 is an interim report: the run has
    started, or the inference waits again. The document has the state.
    """

    request_id: str | None
    status: int
    document: dict[str, Any]
    retry_after_s: float | None = None
