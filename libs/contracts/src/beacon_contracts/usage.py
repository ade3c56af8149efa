"""The use of GPUs, summed up."""

from datetime import datetime
from enum import StrEnum

from pydantic import Field

from beacon_contracts.model import ResponseModel


class UsageGroup(StrEnum):
    """The groups of usage; with `tag`, a job counts once for each of its tags."""

    HOUR = "hour"
    DAY = "day"
    USER = "user"
    KEY = "key"
    MODEL = "model"
    REGION = "region"
    TAG = "tag"


class UsageRow(ResponseModel):
    """The sums of one group; the fields that it is not grouped by are null.

    Failed runs are counted in `runs` and `failed`, and add nothing to the seconds.
    """

    period: datetime | None = Field(default=None, description="Start of the hour or day, in UTC")
    user_id: str | None = None
    key_id: str | None = None
    model: str | None = None
    region: str | None = None
    tag: str | None = None
    runs: int
    failed: int
    queue_seconds: float
    load_seconds: float
    gpu_seconds: float = Field(description="Loading and running")
    tokens_in: int
    tokens_out: int
    output_bytes: int


class UsageReport(ResponseModel):
    """The use between two full hours; without groups, one row or none."""

    start: datetime
    end: datetime
    rows: list[UsageRow]
