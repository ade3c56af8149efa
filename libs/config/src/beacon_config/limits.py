"""The section [limits]: limits of the runner's API."""

from typing import Annotated

from pydantic import Field

from beacon_config.http_server import HttpServerConfig
from beacon_config.section import RESTART, Count


class LimitsConfig(HttpServerConfig):
    """Limits of the runner's API."""

    queue_size: Count = Field(default=1_000_000, description="Live jobs in the whole system")
    matrix_executions: Annotated[int, Field(ge=1, le=100_000)] = Field(
        default=10_000, description="Executions of one matrix: questions by models by regions"
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
        description="Bytes of all requests at /v1 that a process holds in memory. One user may hold at most "
        "as many as are free",
        json_schema_extra=RESTART,
    )
    job_parallelism: Annotated[int, Field(ge=1, le=10_000)] = Field(
        default=256,
        description="Executions of one job that are at the routers at the same time, waiting or running",
        json_schema_extra=RESTART,
    )
