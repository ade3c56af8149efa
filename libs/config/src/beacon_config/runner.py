"""The section [runner]: workers, leases, retries."""

from typing import Annotated

from pydantic import Field

from beacon_config.section import RESTART, Count, PositiveSeconds, Section


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
        default=5.0, description="Delay before a job is sent to the routers again after none has answered"
    )
    router_delay_max_s: PositiveSeconds = Field(
        default=60.0, description="Longest delay of a job that no router accepts"
    )
    lease_s: PositiveSeconds = Field(
        default=10.0,
        description="Duration of a lease: the jobs of a dead worker go to another one after this time",
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
        description="Jobs in flight in one worker process: claimed and not yet recorded",
        json_schema_extra=RESTART,
    )
    in_flight_jobs_per_lane: Annotated[int, Field(ge=1, le=100_000)] = Field(
        default=1_000,
        description="Jobs in flight of one lane in one worker process",
        json_schema_extra=RESTART,
    )
    in_flight_bytes: Count = Field(
        default=268_435_456,
        description="Bytes of the inputs of the jobs in flight in one worker process",
        json_schema_extra=RESTART,
    )
    stop_grace_s: PositiveSeconds = Field(
        default=20.0,
        description="Time for running work to end when the process stops",
        json_schema_extra=RESTART,
    )
    execution_timeout_s: PositiveSeconds = Field(
        default=900.0, description="Longest run of one execution; `run_timeout_s` of its model may be shorter"
    )
