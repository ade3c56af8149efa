"""Makes a run of a claimed job: one with work to do, or one that is over before it begins."""

import structlog

from beacon_contracts.failures import Failure
from beacon_contracts.ids import encode_job_id
from beacon_contracts.inference import Failover
from beacon_runner.domain.messages import Message
from beacon_runner.domain.plan import PlanError, places, stage_plan
from beacon_runner.domain.stage_result import ClaimedJob, Dead, PlannedExecution
from beacon_runner.domain.verdict import PERMANENT, dead_state
from beacon_runner.worker.outcomes import worker_error
from beacon_runner.worker.run import JobRun

log = structlog.get_logger(__name__)


def open_run(message: Message, job: ClaimedJob, now: float) -> JobRun:
    """Never fails: a job that nobody can begin has to end, or it would be delivered again and again."""
    try:
        return JobRun(message, job, stage_plan(job.spec, job.stage, job.context))
    except PlanError as error:
        return _condemned(JobRun(message, job, _bare_plan(job)), error.failure, now)
    except Exception as error:
        log.exception("job_not_understood", job=encode_job_id(job.id))
        return _condemned(JobRun(message, job, ()), worker_error(error, retryable=False), now)


def _condemned(run: JobRun, failure: Failure, now: float) -> JobRun:
    state = dead_state(run.job, some_completed=run.some_completed)
    run.condemn(Dead(state, PERMANENT, failure, run.job.context), now)
    return run


def _bare_plan(job: ClaimedJob) -> tuple[PlannedExecution, ...]:
    """The executions by name only: enough to say that they failed."""
    return tuple(
        PlannedExecution(place.ordinal, place.item, place.model, place.region, Failover.ANY, {}, {})
        for place in places(job.spec)
        if place.stage == job.stage
    )
