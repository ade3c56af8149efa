"""One delivery of a job: what is left to start, what runs, what has to be recorded. No I/O."""

from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from beacon_contracts.failures import Failure, FailureStage
from beacon_contracts.ids import encode_job_id
from beacon_contracts.inference import (
    Failover,
    InferenceState,
    InferenceView,
    RemoteRun,
    RunProgress,
)
from beacon_contracts.jobs import ExecutionState
from beacon_runner.domain.execution.plan import (
    PendingExecution,
    PlanError,
    execution_keys,
    pending_executions,
    refuse_file,
    stage_plan,
)
from beacon_runner.domain.execution.retry_policy import RetryPolicy
from beacon_runner.domain.execution.stage_result import (
    ClaimedJob,
    Dead,
    Deferred,
    ExecutionReport,
    PlannedExecution,
    RunUpdate,
    StageReport,
    Verdict,
)
from beacon_runner.domain.execution.verdict import PERMANENT, dead_verdict, decide, defer, poison_verdict
from beacon_runner.domain.inputs.json_limits import stored_form
from beacon_runner.domain.queue.messages import Message

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class NotAccepted:
    """The router did not accept it now: it has not run, and no attempt is charged.

    `requested_s`: the delay that the router asks for; None if none answered.
    """

    requested_s: float | None
    reason: str


Outcome = InferenceView | Failure | NotAccepted

UNFINISHED = (ExecutionState.QUEUED, ExecutionState.RUNNING)
STATE_OF_RESULT = {
    InferenceState.COMPLETED: ExecutionState.COMPLETED,
    InferenceState.FAILED: ExecutionState.FAILED,
    InferenceState.CANCELLED: ExecutionState.CANCELLED,
}


def build_run(message: Message, job: ClaimedJob, now: float, *, max_deliveries: int) -> "JobRun":
    """Never raises: a job that cannot start must end, or it would be delivered again and again."""
    try:
        plan = stage_plan(job.spec, job.stage, job.context)
        if job.unusable_file is not None:
            refuse_file(job, job.unusable_file)
        run = JobRun(message, job, plan)
    except PlanError as error:
        run = JobRun(message, job, _plan_without_input(job))
        run.fail_all(_permanent(run, error.failure), now)
    except Exception as error:
        log.exception("job_plan_failed", job=encode_job_id(job.id))
        run = JobRun(message, job, ())
        run.fail_all(_permanent(run, worker_error(error, retryable=False)), now)
    else:
        poison = poison_verdict(job, max_deliveries)
        if poison is not None:
            run.fail_all(poison, now)
    return run


def worker_error(error: Exception, *, retryable: bool = True) -> Failure:
    """An unexpected error of the worker: it costs this job an attempt and affects no other job."""
    return Failure(
        code="worker_error", stage=FailureStage.TRANSPORT, retryable=retryable, message=repr(error)[:500]
    )


class JobRun:
    """`start_next` returns executions to start, `finish` takes their outcomes; when settled, `decide`."""

    def __init__(self, message: Message, job: ClaimedJob, plan: Sequence[PlannedExecution]) -> None:
        self.message = message
        self.job = job
        self.verdict: Verdict | None = None
        self.released = False  # the job is no longer ours, or recorded: nothing more is written
        self._plan = plan
        self._left = pending_executions(plan, job.recorded_executions)
        self._left.reverse()  # the next one is taken from the end
        self._recorded_states = {one.ordinal: one.state for one in job.recorded_executions}
        self._shows_progress = job.deliveries == 1
        """False until a report shows that this delivery did not kill its worker."""
        self._running: set[int] = set()
        self._unrecorded: dict[int, ExecutionReport] = {}
        self._updates: dict[int, RunUpdate] = {}
        self._remotes: dict[int, RemoteRun | None] = {
            one.ordinal: one.remote for one in job.recorded_executions if one.remote is not None
        }
        self._progress: dict[int, RunProgress | None] = {}
        self.names_new_run = False
        """A run at a backend is not recorded yet: without it, another worker would repeat the run."""
        self._results: list[ExecutionReport] = []
        self._recorded: tuple[ExecutionReport, ...] = ()
        self._not_accepted: list[NotAccepted] = []
        self._cancelled = False
        """An execution was cancelled at the router while others had not started."""
        self._starts_more = True
        """Nothing was cancelled, and routers accept what is sent."""
        self.has_results = False
        """Whether more is unrecorded than that executions wait or run."""

    @property
    def is_settled(self) -> bool:
        """Nothing runs, and nothing more starts in this delivery."""
        return not self._running and not (self._left and self._starts_more)

    @property
    def some_completed(self) -> bool:
        """Whether an execution of this stage completed, in this delivery or in an earlier one."""
        recorded = [one.state for one in self.job.recorded_executions]
        return ExecutionState.COMPLETED in recorded + [one.state for one in self._results]

    @property
    def unrecorded(self) -> int:
        return len(self._unrecorded) + len(self._updates)

    def start_next(self, parallelism: int) -> PendingExecution | None:
        """The next execution to start, if one is left and fewer than `parallelism` run."""
        if not (self._left and self._starts_more) or len(self._running) >= parallelism:
            return None
        pending = self._left.pop()
        if following := len(self._left) // parallelism:
            pending = pending._replace(following=following)
        self._running.add(pending.execution.ordinal)
        return pending

    def observe(self, pending: PendingExecution, view: InferenceView | None, at: float) -> None:
        """Its state at the router, which is recorded unless its result is in the same flush.

        `view` None: a router has read it; that it runs is reported later.
        """
        ordinal = pending.execution.ordinal
        if ordinal not in self._running:
            return
        recorded = self._recorded_states.get(ordinal)
        report = ExecutionReport(pending.execution, ExecutionState.QUEUED, pending.attempt)
        if view is not None and view.state.on_gpu:
            report = report._replace(
                state=ExecutionState.RUNNING,
                actual_region=view.actual_region,
                backend=view.backend,
                started_at=at - view.timing.load_s - view.timing.run_s,
                start_reported=recorded is ExecutionState.RUNNING,
            )
        if recorded is not report.state or not self._shows_progress:
            self._unrecorded[ordinal] = report
        else:
            self._unrecorded.pop(ordinal, None)
        if view is not None:
            self._observe_run(pending, view)

    def _observe_run(self, pending: PendingExecution, view: InferenceView) -> None:
        """How to find it at its backend, and its progress."""
        ordinal = pending.execution.ordinal
        known, waiting = self._remotes.get(ordinal), self._updates.get(ordinal)
        remote = view.remote
        progress = None if waiting is None else waiting.progress
        if not view.state.on_gpu:
            progress = self._progress[ordinal] = None
        elif view.progress is not None and view.progress != self._progress.get(ordinal):
            progress = self._progress[ordinal] = view.progress
        if remote != known:
            self._remotes[ordinal] = remote
            self.names_new_run |= remote is not None
        if remote != known or progress is not None or waiting is not None:
            self._updates[ordinal] = RunUpdate(pending.execution, pending.attempt, remote, progress)

    def finish(self, pending: PendingExecution, outcome: Outcome, at: float) -> None:
        ordinal = pending.execution.ordinal
        self._running.discard(ordinal)
        self._unrecorded.pop(ordinal, None)  # a state that waits to be recorded is replaced by the result
        recorded = self._recorded_states.get(ordinal)
        if isinstance(outcome, NotAccepted):
            self._left.append(pending)
            self._not_accepted.append(outcome)
            self._starts_more = False
            if recorded in UNFINISHED or ordinal in self._updates:
                self._unrecorded[ordinal] = ExecutionReport(
                    pending.execution, ExecutionState.PENDING, pending.attempt
                )
                self.has_results = True
            return
        self._updates.pop(ordinal, None)
        report = _result(pending, outcome, at, start_reported=recorded is ExecutionState.RUNNING)
        # The verdict on a step of a pipeline takes its output into the context.
        self._results.append(report if "steps" in self.job.spec else _without_output(report))
        self._unrecorded[ordinal] = report
        self.has_results = True
        if self._left and report.state is ExecutionState.CANCELLED:
            # Probably the whole job was cancelled: the result of this record shows it before more is started.
            self._cancelled, self._starts_more = True, False

    def fail_all(self, verdict: Dead, at: float) -> None:
        """End the job without running what is left: it fails for the same reason."""
        for pending in self._left:
            self.finish(pending, verdict.failure, at)
        self._left, self.verdict = [], verdict

    def decide(self, policy: RetryPolicy, chance: float) -> Verdict:
        """Never raises, for the same reason as `build_run`."""
        try:
            if self._not_accepted:
                slowest = max(self._not_accepted, key=lambda one: policy.router.bounded_s(one.requested_s))
                return defer(
                    self.job,
                    slowest.requested_s,
                    slowest.reason,
                    policy.router,
                    chance,
                    progressed=bool(self._results),
                )
            if self._cancelled:
                return Deferred(0.0, "an execution was cancelled at the router")
            return decide(self.job, self._plan, self._results, policy, chance)
        except Exception as error:
            log.exception("verdict_failed", job=encode_job_id(self.job.id))
            failure = worker_error(error, retryable=False)
            return dead_verdict(self.job, failure.code, failure, some_completed=self.some_completed)

    def take_report(self) -> StageReport:
        """All that is not recorded yet; from now on it counts as recorded."""
        executions = tuple(self._unrecorded.values())
        updates = tuple(self._updates.values())
        report = StageReport(self.job, executions, self.verdict, self._recorded, updates)
        self._recorded_states.update((one.execution.ordinal, one.state) for one in executions)
        self._shows_progress |= bool(executions)
        self._recorded += tuple(map(_without_output, executions))
        self._unrecorded, self._updates = {}, {}
        self.names_new_run = self.has_results = False
        return report


def _permanent(run: JobRun, failure: Failure) -> Dead:
    return dead_verdict(run.job, PERMANENT, failure, some_completed=run.some_completed)


def _plan_without_input(job: ClaimedJob) -> tuple[PlannedExecution, ...]:
    """The executions by name only: enough to record that they failed."""
    return tuple(
        PlannedExecution(key.ordinal, key.item, key.model, key.region, Failover.ANY, {}, {})
        for key in execution_keys(job.spec)
        if key.stage == job.stage
    )


def _result(
    pending: PendingExecution, outcome: InferenceView | Failure, at: float, *, start_reported: bool
) -> ExecutionReport:
    if isinstance(outcome, Failure):
        return _failed(pending, outcome, at, start_reported=start_reported)
    ran = outcome.backend is not None or outcome.state is InferenceState.COMPLETED
    # When its last run got onto a GPU, by this process's clock.
    started_at = at - outcome.timing.load_s - outcome.timing.run_s if ran else None
    stored = None if outcome.output is None else stored_form(outcome.output)
    response = None if outcome.response is None else stored_form(outcome.response)
    for form in (stored, response):
        if isinstance(form, Failure):
            failed = _failed(pending, form, at, start_reported=start_reported)
            return failed._replace(started_at=started_at)
    return ExecutionReport(
        pending.execution,
        STATE_OF_RESULT[outcome.state],
        pending.attempt,
        output=outcome.output,
        failure=outcome.failure and _with_item(outcome.failure, pending),
        actual_region=outcome.actual_region,
        backend=outcome.backend,
        timing=outcome.timing,
        started_at=started_at,
        finished_at=at,
        start_reported=start_reported,
        stored=stored if isinstance(stored, str) else None,
        response=response if isinstance(response, str) else None,
        usage=outcome.usage,
        files=tuple(outcome.files) if outcome.state is InferenceState.COMPLETED else (),
    )


def _without_output(report: ExecutionReport) -> ExecutionReport:
    """A job has thousands of them in memory until it ends."""
    return report._replace(output=None, stored=None, response=None)


def _failed(
    pending: PendingExecution, failure: Failure, at: float, *, start_reported: bool
) -> ExecutionReport:
    return ExecutionReport(
        pending.execution,
        ExecutionState.FAILED,
        pending.attempt,
        failure=_with_item(failure, pending),
        finished_at=at,
        start_reported=start_reported,
    )


def _with_item(failure: Failure, pending: PendingExecution) -> Failure:
    """With the name of its item, and without NUL, which Postgres cannot read inside JSON."""
    item = pending.execution.item if failure.item is None else failure.item
    return failure.model_copy(update={"item": item, "message": failure.message.replace("\0", "\ufffd")})
