"""Makes a run of a claimed job: one with work to do, or one that is over before it begins."""

from datetime import datetime

from beacon_contracts.inference import Failover
from beacon_contracts.jobs import ExecutionState, JobState
from beacon_runner.domain.messages import Message
from beacon_runner.domain.plan import PlanError, places, stage_plan
from beacon_runner.domain.verdict import PERMANENT
from beacon_runner.domain.work import ClaimedJob, Dead, PlannedExecution
from beacon_runner.loops.worker.run import JobRun


def open_run(message: Message, job: ClaimedJob, now: datetime) -> JobRun:
    try:
        return JobRun(message, job, stage_plan(job.spec, job.stage, job.context))
    except PlanError as error:
        run = JobRun(message, job, _bare_plan(job))
        some = any(known.state is ExecutionState.COMPLETED for known in job.known)
        state = JobState.PARTIAL if some else JobState.FAILED
        run.condemn(Dead(state, PERMANENT, error.failure, job.context), now)
        return run


def _bare_plan(job: ClaimedJob) -> tuple[PlannedExecution, ...]:
    """The executions by name only: enough to say that they failed."""
    return tuple(
        PlannedExecution(place.ordinal, place.item, place.model, place.region, Failover.ANY, {}, {})
        for place in places(job.spec)
        if place.stage == job.stage
    )
