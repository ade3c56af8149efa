"""Why a job waits: the jobs ahead of it, or the region, backend, limit or breaker that blocks it."""

from pydantic import Field

from beacon_contracts.inference import EtaView, InferenceState
from beacon_contracts.jobs import JobState
from beacon_contracts.model import ResponseModel
from beacon_contracts.tiers import JobClass


class ExecutionWait(ResponseModel):
    """One execution that has been sent to the router and has not ended."""

    execution_id: str
    model: str
    region: str
    state: InferenceState
    position: int | None = None
    eta: EtaView | None = None
    waiting_for: str | None = None


class WhyView(ResponseModel):
    """`summary` is one sentence; `reasons` are the causes."""

    job_id: str
    status: JobState
    summary: str
    reasons: list[str] = Field(default_factory=list)
    priority: JobClass | None = None
    lane: str | None = None
    jobs_ahead: int | None = None
    position: int | None = None
    estimated_wait_s: float | None = None
    paused: bool = False
    executions: list[ExecutionWait] = Field(default_factory=list)
