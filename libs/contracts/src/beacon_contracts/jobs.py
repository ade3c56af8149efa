"""Jobs as users submit and see them; `kind` distinguishes matrix, pipeline and generation."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, TypeAdapter

from beacon_contracts.failures import Failure
from beacon_contracts.inference import Failover, RunProgress, Timing
from beacon_contracts.model import Moment, Name, RequestModel, ResponseModel, Text
from beacon_contracts.tiers import JobClass, Tier
from beacon_contracts.webhooks import WebhookEvents, WebhookUrl

Prompt = Annotated[Text, Field(min_length=1, max_length=100_000)]


class JobState(StrEnum):
    """States of a job; `scheduled`, `queued`, `processing` and `retrying` are live, the others final.

    A job is `processing` when one of its executions has started on a GPU, not while all wait.
    """

    SCHEDULED = "scheduled"
    QUEUED = "queued"
    PROCESSING = "processing"
    RETRYING = "retrying"
    COMPLETED = "completed"
    PARTIAL = "partial"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


class ExecutionState(StrEnum):
    """States of an execution; `pending`, `queued` and `running` are live, the others final.

    `queued`: it waits at a router. `running`: it is on a GPU.
    """

    PENDING = "pending"
    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Question(RequestModel):
    """One question of a matrix; the results are listed under its id."""

    id: Name
    prompt: Prompt


def _with_ids(questions: Any) -> Any:
    """A plain text becomes a question; its id is its number, that of the first one for equal texts."""
    if not isinstance(questions, list):
        return questions
    ids: dict[str, str] = {}
    return [
        {"id": ids.setdefault(given, f"q{number}"), "prompt": given} if isinstance(given, str) else given
        for number, given in enumerate(questions, start=1)
    ]


Questions = Annotated[
    list[Question], BeforeValidator(_with_ids, json_schema_input_type=list[Question | Prompt])
]


class ModelChoice(RequestModel):
    """A model, with regions that replace those of the matrix."""

    id: Name
    regions: Annotated[list[Name], Field(min_length=1, max_length=100)] | None = None


Tag = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=r"^[^\x00-\x1f\x7f]+$")]


def _unique(tags: list[Tag]) -> list[Tag]:
    return list(dict.fromkeys(tags))


MetadataKey = Annotated[
    str, StringConstraints(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
]
MetadataValue = Annotated[Text, StringConstraints(max_length=512)]


class OnLimit(StrEnum):
    """Whether a job that exceeds a limit of its user is refused or waits."""

    REJECT = "reject"
    WAIT = "wait"


class JobWebhook(RequestModel):
    """A receiver of a job's events, in addition to the endpoints of its user."""

    webhook_url: WebhookUrl | None = None
    webhook_events: WebhookEvents | None = None


class JobOptions(JobWebhook):
    """The fields of all kinds of jobs. Lists can be filtered by name, tags and metadata."""

    name: Annotated[Text, Field(max_length=200)] = ""
    tags: Annotated[list[Tag], Field(max_length=16), AfterValidator(_unique)] = Field(default_factory=list)
    metadata: Annotated[dict[MetadataKey, MetadataValue], Field(max_length=16)] = Field(default_factory=dict)
    not_before: Moment | None = Field(default=None, description="The job starts at this time or later")
    expires_at: Moment | None = Field(
        default=None, description="A job that has not ended by this time ends as `expired`"
    )
    on_limit: OnLimit = Field(
        default=OnLimit.REJECT,
        description="`wait`: the job is `scheduled` until the limits of its user allow it, instead of a 429",
    )


class MatrixJob(JobOptions):
    """A job of every question with every model in every region. A plain text is a question without an id."""

    kind: Literal["matrix"]
    questions: Annotated[Questions, Field(min_length=1, max_length=10_000)]
    models: Annotated[list[Name | ModelChoice], Field(min_length=1, max_length=1_000)]
    regions: Annotated[list[Name], Field(min_length=1, max_length=100)]
    params: dict[str, Any] = Field(default_factory=dict)
    failover: Failover = Failover.ANY


class PipelineJob(JobOptions):
    """A job that runs the steps of a configured feature one after another."""

    kind: Literal["pipeline"]
    feature: Name
    input: dict[str, Any]
    region: Name | None = None
    params: dict[str, Any] = Field(default_factory=dict)
    failover: Failover = Failover.ANY


class GenerationJob(JobOptions):
    """A job with one model and its input; `prompt`, `duration` and `loop` are short for fields of it."""

    kind: Literal["generation"]
    model: Name
    input: dict[str, Any] | None = None
    prompt: Prompt | None = None
    duration: Annotated[float, Field(strict=True, gt=0, le=86_400)] | None = None
    loop: bool = False
    region: Name | None = None
    params: dict[str, Any] = Field(default_factory=dict)
    failover: Failover = Failover.ANY


JobSubmission = Annotated[MatrixJob | PipelineJob | GenerationJob, Field(discriminator="kind")]
job_submission: TypeAdapter[MatrixJob | PipelineJob | GenerationJob] = TypeAdapter(JobSubmission)


class JobAccepted(ResponseModel):
    """The response to a submission. Without an estimate of the wait, `no_estimate_reason` has the cause."""

    job_id: str
    status: JobState
    tier: Tier
    priority: JobClass
    position: int | None = None
    estimated_wait_s: float | None = None
    no_estimate_reason: str | None = None
    links: dict[str, str]


class BatchSubmission(RequestModel):
    """Accepted or refused as a whole."""

    jobs: Annotated[list[JobSubmission], Field(min_length=1, max_length=10_000)]


class BatchAccepted(ResponseModel):
    """The jobs of an accepted batch, in the order of the request."""

    jobs: list[JobAccepted]


class Progress(ResponseModel):
    """How many executions are in each state; in lists, all that have not ended count as `pending`.

    `percent` contains, except in lists, what backends report of running executions.
    """

    total: int
    pending: int
    queued: int = 0
    running: int
    completed: int
    failed: int
    cancelled: int
    percent: float


class AttemptView(ResponseModel):
    """One attempt of an execution, and how it ended."""

    number: int
    region: str | None
    backend: str | None
    state: ExecutionState
    failure: Failure | None
    started_at: datetime | None
    finished_at: datetime | None
    timing: Timing | None = None


class ExecutionView(ResponseModel):
    """One inference of a job: its model, region, state and output or failure."""

    id: str
    job_id: str
    stage: int
    step: str | None = None
    item: str
    model: str
    region: str
    actual_region: str | None = None
    backend: str | None = None
    state: ExecutionState
    attempt: int
    output: Any = None
    response: dict[str, Any] | None = Field(
        default=None,
        description="The complete response of an OpenAI-compatible backend: tool calls, finish reason, usage",
    )
    tokens_in: int | None = Field(default=None, description="Where the backend reports them")
    tokens_out: int | None = None
    progress: RunProgress | None = Field(
        default=None, description="While it runs: the last progress report of its backend"
    )
    failure: Failure | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    timing: Timing | None = None
    attempts: list[AttemptView] | None = None


class JobSummary(ResponseModel):
    """A job without its executions, as in lists."""

    job_id: str
    user_id: str | None = None
    kind: str
    name: str
    status: JobState
    tier: Tier
    priority: JobClass
    stage: int
    stages: int
    progress: Progress
    attempt: int
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    failure: Failure | None = None
    tags: list[str] = Field(default_factory=list)
    metadata: dict[str, str] = Field(default_factory=dict)
    not_before: datetime | None = None
    expires_at: datetime | None = None


class JobView(JobSummary):
    """A job with its executions, input, position and price."""

    executions: list[ExecutionView]
    """The first 200, fewer if their outputs are large; `executions_cursor` continues at `…/executions`."""
    executions_cursor: str | None = None
    spec: dict[str, Any] = Field(default_factory=dict)
    """The normalised submission: questions and targets, feature and input, or model and input."""
    context: dict[str, Any] = Field(default_factory=dict)
    position: int | None = None
    estimated_wait_s: float | None = None
    no_estimate_reason: str | None = None
    price_paid: int = 0
    skip_price: int | None = None
    """The current price of a skip; None for jobs that run, have ended or have paid."""
    promoted_at: datetime | None = None
    next_attempt_at: datetime | None = None
    webhook_url: str | None = None
    webhook_events: list[str] | None = None
    links: dict[str, str] = Field(default_factory=dict)


class ExecutionPage(ResponseModel):
    """Executions of a job in the order of stages, questions, models and regions."""

    executions: list[ExecutionView]
    next_cursor: str | None = None


class SkipView(JobView):
    """The job after a skip, with its cost, the remaining credit and the number of jobs passed."""

    cost: int
    credit: int
    places_gained: int | None = None


class JobPage(ResponseModel):
    """Jobs, newest first. A page compares a bounded number of jobs with the filters."""

    jobs: list[JobSummary]
    next_cursor: str | None = Field(
        default=None, description="Null at the end of the search; a page with few jobs, or none, may have one"
    )
