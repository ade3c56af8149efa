"""The section [router]: scheduling, timeouts and limits of the router."""

from typing import Annotated, Literal

from pydantic import Field

from beacon_config.http_server import HttpServerConfig
from beacon_config.section import RESTART, Count, PositiveSeconds


class RouterConfig(HttpServerConfig):
    """Scheduling, timeouts and limits of the router."""

    fairness: Literal["fair", "fifo"] = Field(
        default="fair", description="Order of the users of a tier: by GPU time, or by arrival"
    )
    warm_wait_max_loads: Annotated[float, Field(ge=0, le=1_000)] = Field(
        default=5.0,
        description="Longest wait for a busy backend that has the model loaded, in load times of the model",
    )
    batch_limit: Annotated[int, Field(ge=1, le=1_000)] = Field(
        default=3,
        description="Requests for loaded models that may start in a row before the first request in order",
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
        description="Bytes of all inputs and results that a router holds in memory",
        json_schema_extra=RESTART,
    )
    body_bytes: Count = Field(
        default=25_165_824, description="Size of a request body", json_schema_extra=RESTART
    )
    load_timeout_s: PositiveSeconds = Field(
        default=600.0,
        description="Time that is added to the run timeout when the model has to be loaded first",
    )
    run_timeout_s: PositiveSeconds = Field(
        default=300.0, description="Longest run of a request that has no timeout of its own"
    )
    breaker_failures: Count = Field(
        default=5,
        description="Failures in a row that open the breaker of a backend",
        json_schema_extra=RESTART,
    )
    breaker_open_s: PositiveSeconds = Field(
        default=15.0, description="Time that a breaker stays open before a probe", json_schema_extra=RESTART
    )
    rest_max_s: PositiveSeconds = Field(
        default=300.0,
        description="Longest pause that a backend can request by Retry-After",
        json_schema_extra=RESTART,
    )
    health_every_s: PositiveSeconds = Field(
        default=10.0, description="Interval of the health checks", json_schema_extra=RESTART
    )
    slot_lease_s: Annotated[float, Field(ge=1, le=3_600, allow_inf_nan=False)] = Field(
        default=10.0,
        description="Duration of a lease on a shared limit: the share of a dead router is free after this "
        "time",
        json_schema_extra=RESTART,
    )
    stop_grace_s: PositiveSeconds = Field(
        default=20.0,
        description="Time for running inferences to end when the process stops",
        json_schema_extra=RESTART,
    )
