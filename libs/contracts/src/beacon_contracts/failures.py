"""Why something did not work: the same shape in jobs, executions, attempts and the router's answers."""

from enum import StrEnum
from typing import Any

from beacon_contracts.model import ResponseModel


class FailureStage(StrEnum):
    """Where on its way an execution failed."""

    ADMISSION = "admission"
    QUEUE = "queue"
    LOAD = "load"
    RUN = "run"
    TRANSPORT = "transport"
    RECORD = "record"


class Failure(ResponseModel):
    code: str
    stage: FailureStage
    retryable: bool
    message: str
    item: str | None = None
    details: dict[str, Any] | None = None
