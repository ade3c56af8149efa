"""Failures of jobs, executions, attempts and requests to the router."""

from enum import StrEnum
from typing import Any

from beacon_contracts.model import ResponseModel


class FailureStage(StrEnum):
    """The stage in which an execution failed."""

    ADMISSION = "admission"
    QUEUE = "queue"
    LOAD = "load"
    RUN = "run"
    TRANSPORT = "transport"
    RECORD = "record"


class Failure(ResponseModel):
    """Why an execution failed, with a stable code and whether a retry may help."""

    code: str
    stage: FailureStage
    retryable: bool
    message: str
    item: str | None = None
    details: dict[str, Any] | None = None
