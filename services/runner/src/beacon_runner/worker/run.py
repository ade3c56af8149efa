"""One delivery of a job: what is left to start, what runs, what is to be recorded. No I/O, no waiting."""

from collections.abc import Sequence

from beacon_contracts.failures import Failure
from beacon_contracts.inference import InferenceView
from beacon_contracts.jobs import ExecutionState
from beacon_runner.domain.json_limits import stored_form
from beacon_runner.domain.messages import Message
from beacon_runner.domain.plan import Due, due
from beacon_runner.domain.stage_result import (
    ClaimedJob,
    Dead,
    ExecutionReport,
    PlannedExecution,
    StageReport,
    Verdict,
)
from beacon_runner.domain.verdict import RetryPolicy, decide, postpone
from beacon_runner.worker.outcomes import STATE_OF_RESULT, NotTaken, Outcome


class JobRun:
    """Starts come from `next_due`, ends go to `finished`; when `settled`, `judge` gives the verdict."""

    __slots__ = (
        "_left",
        "_plan",
        "_postponed",
        "_results",
        "_running",
        "_told",
        "_unrecorded",
        "confirmed",
        "job",
        "let_go",
        "message",
        "verdict",
    )

    def __init__(self, message: Message, job: ClaimedJob, plan: Sequence[PlannedExecution]) -> None:
        self.message = message
        self.job = job
        self.verdict: Verdict | None = None
        self.let_go = False  # nobody works on it any more
        self.confirmed = True  # the store knows that it is ours; until then nothing of it is written
        self._plan = plan
        self._left = due(plan, job.known)
        self._left.reverse()  # the first to start is taken from the end
        # By earlier deliveries, of which there are none most of the time.
        self._told = {known.ordinal for known in job.known if known.told} if job.known else frozenset()
        self._running: dict[int, ExecutionReport | None] = {}
        self._results: list[ExecutionReport] = []
        self._unrecorded: dict[int, ExecutionReport] = {}
        self._postponed: NotTaken | None = None

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def settled(self) -> bool:
        """Nothing runs, and nothing more is to be started now."""
        return not self._running and (not self._left or self._postponed is not None)

    @property
    def some_completed(self) -> bool:
        """Whether anything of this stage is, in this delivery or in an earlier one."""
        states = [known.state for known in self.job.known] + [result.state for result in self._results]
        return ExecutionState.COMPLETED in states

    @property
    def unrecorded(self) -> int:
        return len(self._unrecorded)

    def condemn(self, verdict: Dead, at: float) -> None:
        """End it without running what is left: that fails for the same reason."""
        for left in self._left:
            self._running[left.execution.ordinal] = None
            self.finished(left, verdict.failure, at, at)
        self._left, self.verdict = [], verdict

    def next_due(self, parallelism: int) -> Due | None:
        """The next execution to start, unless as many as may run already do."""
        if not self._left or self._postponed is not None or len(self._running) >= parallelism:
            return None
        started = self._left.pop()
        self._running[started.execution.ordinal] = None
        return started

    def went_on(self, started: Due, at: float) -> None:
        """It did not end at once: say that it runs."""
        ordinal = started.execution.ordinal
        report = ExecutionReport(
            started.execution,
            ExecutionState.RUNNING,
            started.attempt,
            started_at=at,
            start_reported=ordinal in self._told,
        )
        self._running[ordinal] = report
        self._unrecorded[ordinal] = report

    def finished(self, started: Due, outcome: Outcome, started_at: float, at: float) -> None:
        ordinal = started.execution.ordinal
        noted = self._running.pop(ordinal)
        # A start that waits to be written and its end become one write.
        written = noted is not None and not self._untold(ordinal)
        # What is usual is asked for: that something is not of a model's class takes longer to see.
        if not isinstance(outcome, InferenceView) and isinstance(outcome, NotTaken):
            self._put_off(started, outcome, told=written)
            return
        report = _report(started, outcome, started_at, at, start_reported=written or ordinal in self._told)
        self._results.append(report)
        self._unrecorded[ordinal] = report
        if self._left and report.state is ExecutionState.CANCELLED and self._postponed is None:
            # Probably the whole job was: the answer to this record tells, before anything more is started.
            self._postponed = NotTaken(0.0, "an execution was cancelled at the router")

    def judge(self, policy: RetryPolicy, chance: float) -> Verdict:
        if self._postponed is not None:
            asked_s, reason = self._postponed.delay_s, self._postponed.reason
            return postpone(self.job, asked_s, reason, policy, chance, progressed=bool(self._results))
        return decide(self.job, self._plan, self._results, policy, chance)

    def take_report(self) -> StageReport:
        """All that has not been recorded yet; it counts as recorded from now on."""
        executions = tuple(self._unrecorded.values())
        self._unrecorded = {}
        return StageReport(self.job, executions, (), self.verdict)

    def _untold(self, ordinal: int) -> bool:
        """Whether its start still waits to be written; then it is not written any more."""
        return self._unrecorded.pop(ordinal, None) is not None

    def _put_off(self, started: Due, outcome: NotTaken, *, told: bool) -> None:
        self._left.append(started)
        if told:  # that it runs, which it does not
            waits = ExecutionReport(
                started.execution, ExecutionState.PENDING, started.attempt, start_reported=True
            )
            self._unrecorded[started.execution.ordinal] = waits
        if self._postponed is None or outcome.delay_s > self._postponed.delay_s:
            self._postponed = outcome


def _report(
    started: Due,
    outcome: InferenceView | Failure,
    started_at: float,
    at: float,
    *,
    start_reported: bool,
) -> ExecutionReport:
    if not isinstance(outcome, InferenceView):
        return _failed(started, outcome, started_at, at, start_reported=start_reported)
    stored = None if outcome.output is None else stored_form(outcome.output)
    if stored is not None and not isinstance(stored, str):
        return _failed(started, stored, started_at, at, start_reported=start_reported)
    return ExecutionReport(
        started.execution,
        STATE_OF_RESULT[outcome.state],
        started.attempt,
        outcome.output,
        outcome.failure and _about(outcome.failure, started),
        outcome.actual_region,
        outcome.backend,
        outcome.timing,
        started_at,
        at,
        start_reported,
        stored,
    )


def _failed(
    started: Due, failure: Failure, started_at: float, at: float, *, start_reported: bool
) -> ExecutionReport:
    return ExecutionReport(
        started.execution,
        ExecutionState.FAILED,
        started.attempt,
        failure=_about(failure, started),
        started_at=started_at,
        finished_at=at,
        start_reported=start_reported,
    )


def _about(failure: Failure, started: Due) -> Failure:
    """Names its item; without NUL, which the statements that look into failures could not read."""
    item = started.execution.item if failure.item is None else failure.item
    return failure.model_copy(update={"item": item, "message": failure.message.replace("\0", "\ufffd")})
