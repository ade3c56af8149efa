"""Limits, timeouts and intervals of runner and router."""

from typing import Annotated, Literal

from pydantic import Field

from beacon_config.section import RESTART, Count, FileBytes, PositiveSeconds, Section


class LimitsConfig(Section):
    """Limits of the runner's API."""

    queue_size: Count = Field(default=1_000_000, description="Live jobs in the whole system")
    matrix_executions: Annotated[int, Field(ge=1, le=100_000)] = Field(
        default=10_000, description="Questions by models by regions of one job"
    )
    batch_jobs: Annotated[int, Field(ge=1, le=10_000)] = Field(
        default=1_000, description="Jobs of one batch submission"
    )
    webhooks: Annotated[int, Field(ge=0, le=1_000)] = Field(default=10, description="Webhooks of one user")
    body_bytes: Count = Field(
        default=1_048_576, description="Size of a request body", json_schema_extra=RESTART
    )
    openai_body_bytes: Count = Field(
        default=20_971_520, description="Size of a request body at /v1", json_schema_extra=RESTART
    )
    openai_held_bytes: Count = Field(
        default=268_435_456,
        description="Bytes of all requests at /v1 in the memory of a process; a user may hold as many as are "
        "left free",
        json_schema_extra=RESTART,
    )
    connections: Count = Field(
        default=4_096,
        description="Connections that one process serves at once; at most half of the files that it may open",
        json_schema_extra=RESTART,
    )
    head_timeout_s: PositiveSeconds = Field(
        default=10.0, description="For the head of a request", json_schema_extra=RESTART
    )
    body_timeout_s: PositiveSeconds = Field(
        default=30.0, description="For the whole body of a request", json_schema_extra=RESTART
    )
    reader_timeout_s: PositiveSeconds = Field(
        default=30.0,
        description="A client that reads nothing of a response for so long is disconnected",
        json_schema_extra=RESTART,
    )
    job_parallelism: Annotated[int, Field(ge=1, le=10_000)] = Field(
        default=256,
        description="Executions of one job that run or wait at the routers",
        json_schema_extra=RESTART,
    )


class ApiConfig(Section):
    """The runner's API."""

    cors_origins: list[Annotated[str, Field(pattern=r"^(\*|https?://[^/*\s]+)$")]] = Field(
        default_factory=list,
        description="Web pages of these origins may call the API; `*`: all",
        json_schema_extra=RESTART,
    )


class RunnerConfig(Section):
    """Workers and background loops."""

    job_retries: Annotated[int, Field(ge=0, le=100)] = Field(
        default=3, description="Retries of a job after its first attempt"
    )
    job_retry_delays_s: Annotated[tuple[PositiveSeconds, ...], Field(min_length=1)] = Field(
        default=(60.0, 120.0, 180.0),
        description="Delay before each retry; the last one applies to all further ones",
    )
    router_unreachable_delay_s: PositiveSeconds = Field(
        default=5.0, description="Until a job is sent to the routers again when none answers"
    )
    router_delay_max_s: PositiveSeconds = Field(
        default=60.0, description="Longest delay of a job that a router does not accept now"
    )
    lease_s: PositiveSeconds = Field(
        default=10.0,
        description="Until another worker takes over the job of a dead one",
        json_schema_extra=RESTART,
    )
    heartbeat_s: PositiveSeconds = Field(
        default=2.5,
        description="Interval in which a worker renews its leases; at most half of lease_s",
        json_schema_extra=RESTART,
    )
    max_deliveries: Count = Field(
        default=5,
        description="Deliveries of a job without progress until it is a dead letter",
        json_schema_extra=RESTART,
    )
    claim_batch: Annotated[int, Field(ge=1, le=10_000)] = Field(
        default=200,
        description="Jobs that a worker claims at once",
        json_schema_extra=RESTART,
    )
    in_flight_jobs: Annotated[int, Field(ge=1, le=100_000)] = Field(
        default=8_192,
        description="Jobs of a worker that wait at a router or in it",
        json_schema_extra=RESTART,
    )
    in_flight_jobs_per_lane: Annotated[int, Field(ge=1, le=100_000)] = Field(
        default=1_000,
        description="The same, of one lane",
        json_schema_extra=RESTART,
    )
    in_flight_bytes: Count = Field(
        default=268_435_456, description="Bytes of their inputs", json_schema_extra=RESTART
    )
    stop_grace_s: PositiveSeconds = Field(
        default=20.0,
        description="Time for running work to end when the process stops",
        json_schema_extra=RESTART,
    )
    execution_timeout_s: PositiveSeconds = Field(
        default=900.0, description="Of one run; a run_timeout_s of its model may be shorter"
    )


class RetentionConfig(Section):
    """How long data is kept."""

    check_every_s: PositiveSeconds = Field(
        default=300.0, description="Interval of the deletion", json_schema_extra=RESTART
    )
    events_s: PositiveSeconds = Field(default=604_800.0, description="How long events are kept")
    idempotency_s: PositiveSeconds = Field(default=86_400.0, description="How long idempotency keys are kept")
    jobs_s: PositiveSeconds = Field(default=2_592_000.0, description="How long finished jobs are kept")
    webhooks_s: PositiveSeconds = Field(
        default=2_592_000.0, description="How long deliveries of webhooks are kept"
    )


class FilesConfig(Section):
    """Files of users; their bytes are where BEACON_FILES_URL says."""

    max_bytes: FileBytes = Field(
        default=1_073_741_824, description="Size of one file", json_schema_extra=RESTART
    )
    upload_retention_s: PositiveSeconds = Field(
        default=86_400.0, description="An upload that nothing uses is deleted after this time"
    )
    url_expires_s: Annotated[int, Field(ge=1, le=604_800)] = Field(
        default=600, description="How long an address works that needs no key"
    )


class RouterConfig(Section):
    """Scheduling, timeouts and limits of the router."""

    fairness: Literal["fair", "fifo"] = Field(
        default="fair", description="Order of the users of a tier: by GPU time, or by arrival"
    )
    warm_wait_max_loads: Annotated[float, Field(ge=0, le=1_000)] = Field(
        default=5.0, description="Loads for which a request waits for a busy backend with its model"
    )
    batch_limit: Annotated[int, Field(ge=1, le=1_000)] = Field(
        default=3, description="Requests of the loaded model that may be served in a row before others"
    )
    attempts: Annotated[int, Field(ge=1, le=100)] = Field(default=3, description="Attempts of one inference")
    backoff_max_s: PositiveSeconds = Field(default=60.0, description="Longest delay between two attempts")
    result_retention_s: PositiveSeconds = Field(
        default=600.0,
        description="How long results are kept for the runner",
        json_schema_extra=RESTART,
    )
    queue_size: Count = Field(default=100_000, description="Waiting inferences")
    held_bytes: Count = Field(
        default=268_435_456,
        description="Bytes of all inputs and results in memory",
        json_schema_extra=RESTART,
    )
    body_bytes: Count = Field(
        default=25_165_824, description="Size of a request body", json_schema_extra=RESTART
    )
    connections: Count = Field(
        default=4_096,
        description="Connections that one process serves at once; at most half of the files that it may open",
        json_schema_extra=RESTART,
    )
    head_timeout_s: PositiveSeconds = Field(
        default=10.0, description="For the head of a request", json_schema_extra=RESTART
    )
    body_timeout_s: PositiveSeconds = Field(
        default=30.0, description="For the whole body of a request", json_schema_extra=RESTART
    )
    reader_timeout_s: PositiveSeconds = Field(
        default=30.0,
        description="A client that reads nothing of a stream for so long is disconnected",
        json_schema_extra=RESTART,
    )
    load_timeout_s: PositiveSeconds = Field(
        default=600.0,
        description="Longest run of a request whose model has to be loaded first, beyond its run timeout",
    )
    run_timeout_s: PositiveSeconds = Field(
        default=300.0, description="Longest run where the caller sets none"
    )
    breaker_failures: Count = Field(
        default=5,
        description="Failures in a row that open the breaker of a backend",
        json_schema_extra=RESTART,
    )
    breaker_open_s: PositiveSeconds = Field(
        default=15.0, description="How long it stays open until a probe", json_schema_extra=RESTART
    )
    rest_max_s: PositiveSeconds = Field(
        default=300.0,
        description="Longest pause that a backend may ask for with Retry-After",
        json_schema_extra=RESTART,
    )
    health_every_s: PositiveSeconds = Field(
        default=10.0, description="Interval of the health checks", json_schema_extra=RESTART
    )
    slot_lease_s: Annotated[float, Field(ge=1, le=3_600, allow_inf_nan=False)] = Field(
        default=10.0,
        description="Until the limits of a dead router are available again",
        json_schema_extra=RESTART,
    )
    stop_grace_s: PositiveSeconds = Field(
        default=20.0,
        description="Time for running inferences to end when the process stops",
        json_schema_extra=RESTART,
    )
