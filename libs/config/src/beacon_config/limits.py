"""Limits, timeouts and intervals of runner and router."""

from typing import Annotated, Literal

from pydantic import Field

from beacon_config.topology import Count, PositiveSeconds, Section


class LimitsConfig(Section):
    queue_size: Count = 1_000_000
    matrix_executions: Annotated[int, Field(ge=1, le=100_000)] = 10_000
    batch_jobs: Annotated[int, Field(ge=1, le=10_000)] = 1_000
    body_bytes: Count = 1_048_576
    openai_body_bytes: Count = 20_971_520
    connections: Count = 4_096
    head_timeout_s: PositiveSeconds = 10.0
    body_timeout_s: PositiveSeconds = 30.0
    reader_timeout_s: PositiveSeconds = 30.0
    job_parallelism: Annotated[int, Field(ge=1, le=10_000)] = 64


class RunnerConfig(Section):
    job_retries: Annotated[int, Field(ge=0, le=100)] = 3
    job_retry_delays_s: Annotated[tuple[PositiveSeconds, ...], Field(min_length=1)] = (60.0, 120.0, 180.0)
    router_unreachable_delay_s: PositiveSeconds = 5.0
    router_delay_max_s: PositiveSeconds = 60.0
    lease_s: PositiveSeconds = 10.0
    heartbeat_s: PositiveSeconds = 2.5
    max_deliveries: Count = 5
    claim_batch: Annotated[int, Field(ge=1, le=10_000)] = 200
    in_flight_jobs: Annotated[int, Field(ge=1, le=100_000)] = 8_192
    in_flight_jobs_per_lane: Annotated[int, Field(ge=1, le=100_000)] = 1_000
    in_flight_bytes: Count = 268_435_456
    stop_grace_s: PositiveSeconds = 20.0
    execution_timeout_s: PositiveSeconds = 900.0


class RetentionConfig(Section):
    check_every_s: PositiveSeconds = 300.0
    events_s: PositiveSeconds = 604_800.0
    idempotency_s: PositiveSeconds = 86_400.0
    jobs_s: PositiveSeconds = 2_592_000.0


class RouterConfig(Section):
    fairness: Literal["fair", "fifo"] = "fair"
    warm_wait_max_loads: Annotated[float, Field(ge=0, le=1_000)] = 5.0
    batch_limit: Annotated[int, Field(ge=1, le=1_000)] = 3
    attempts: Annotated[int, Field(ge=1, le=100)] = 3
    backoff_max_s: PositiveSeconds = 60.0
    result_retention_s: PositiveSeconds = 600.0
    queue_size: Count = 100_000
    held_bytes: Count = 268_435_456
    body_bytes: Count = 25_165_824
    connections: Count = 4_096
    head_timeout_s: PositiveSeconds = 10.0
    body_timeout_s: PositiveSeconds = 30.0
    reader_timeout_s: PositiveSeconds = 30.0
    load_timeout_s: PositiveSeconds = 600.0
    run_timeout_s: PositiveSeconds = 300.0
    breaker_failures: Count = 5
    breaker_open_s: PositiveSeconds = 15.0
    rest_max_s: PositiveSeconds = 300.0
    health_every_s: PositiveSeconds = 10.0
    slot_lease_s: PositiveSeconds = 10.0
    stop_grace_s: PositiveSeconds = 20.0
