"""One delivery of a job without I/O: started executions, reports, verdict."""

import tracemalloc
from typing import Any

import pytest

from beacon_contracts.failures import Failure, FailureStage
from beacon_contracts.ids import JobId, UserId, new_uuid
from beacon_contracts.inference import InferenceState, InferenceView, RemoteRun, RunProgress, Timing
from beacon_contracts.jobs import ExecutionState, JobState
from beacon_contracts.tiers import JobClass
from beacon_runner.domain.execution.retry_policy import RetryPolicy, RouterBackoff
from beacon_runner.domain.execution.stage_result import (
    ClaimedJob,
    Dead,
    Deferred,
    Finished,
    NextStage,
    RecordedExecution,
    RetryLater,
)
from beacon_runner.domain.inputs.json_limits import MAX_RESULT_BYTES, NOT_RECORDABLE, stored_form
from beacon_runner.domain.jobs.events import events_of
from beacon_runner.domain.queue.messages import Message
from beacon_runner.worker.executor import request_of
from beacon_runner.worker.run import JobRun, NotAccepted, build_run

AT, LATER = 1_767_225_600.0, 1_767_312_000.0
DONE = InferenceView(
    request_id="r",
    state=InferenceState.COMPLETED,
    model="m",
    requested_region="US",
    actual_region="EU",
    backend="eu-1",
    fence=1,
    output="",
)
BROKEN = Failure(code="broken", stage=FailureStage.RUN, retryable=True, message="it broke")
MATRIX = {
    "questions": [{"id": f"q{number}", "prompt": "why?"} for number in range(3)],
    "targets": [["m", ["US"]]],
}
PIPELINE = {
    "input": {"prompt": "p"},
    "steps": [
        {"name": "one", "model": "m", "region": "US", "attempts": 3, "input": {"text": "{{ input.prompt }}"}},
        {"name": "two", "model": "m", "region": "US", "attempts": 3, "input": {"text": "{{ one.answer }}"}},
    ],
}


def claimed(**changes: Any) -> ClaimedJob:
    usual: dict[str, Any] = {
        "id": JobId(new_uuid()),
        "user": UserId(new_uuid()),
        "fence": 7,
        "generation": 1,
        "stage": 0,
        "stages": 1,
        "attempt": 1,
        "kind": "matrix",
        "spec": MATRIX,
        "context": {},
        "tier": "free",
        "front": True,
    }
    return ClaimedJob(**{**usual, **changes})


def opened(**changes: Any) -> JobRun:
    job = claimed(**changes)
    return build_run(Message(job.id, 1, 0, 1, JobClass.LOW, "anna"), job, AT, max_deliveries=3)


def start(run: JobRun, parallelism: int = 10) -> list[Any]:
    started = []
    while (due := run.start_next(parallelism)) is not None:
        started.append(due)
    return started


def verdict(run: JobRun) -> Any:
    return run.decide(RetryPolicy(), 0.0)


def test_concurrent_executions_are_bounded() -> None:
    run = opened()
    first = start(run, 2)
    assert [due.execution.ordinal for due in first] == [0, 1]
    run.finish(first[0], DONE, LATER)
    assert [due.execution.ordinal for due in start(run, 2)] == [2]


def test_only_unfinished_executions_are_started() -> None:
    known = (
        RecordedExecution(0, ExecutionState.COMPLETED, 1),
        RecordedExecution(1, ExecutionState.PENDING, 2),
    )
    assert [(due.execution.ordinal, due.attempt) for due in start(opened(recorded_executions=known))] == [
        (1, 2),
        (2, 1),
    ]


def at_router(state: InferenceState) -> InferenceView:
    timing = Timing(queued_s=5.0, load_s=2.0, run_s=1.0)
    return DONE.model_copy(update={"state": state, "output": None, "timing": timing})


RUNNING, QUEUED = at_router(InferenceState.RUNNING), at_router(InferenceState.QUEUED)


def test_an_execution_that_waits_at_a_router_is_queued() -> None:
    run = opened()
    (due, *_) = start(run)
    run.observe(due, None, AT)
    report = run.take_report()
    assert [(one.state, one.started_at) for one in report.executions] == [(ExecutionState.QUEUED, None)]
    assert report.started_at is None
    assert [event.type for event in events_of(report)] == ["EXECUTION_QUEUED"]


def test_a_start_has_the_time_at_which_the_gpu_was_assigned() -> None:
    run = opened()
    (due, *_) = start(run)
    run.observe(due, None, AT)
    run.observe(due, RUNNING, AT)
    report = run.take_report()
    assert [(one.state, one.backend) for one in report.executions] == [(ExecutionState.RUNNING, "eu-1")]
    assert report.started_at == AT - 3.0
    assert [event.type for event in events_of(report)] == ["EXECUTION_START"]


def test_recorded_states_are_not_recorded_again() -> None:
    known = (RecordedExecution(0, ExecutionState.RUNNING, 1), RecordedExecution(1, ExecutionState.QUEUED, 1))
    run = opened(recorded_executions=known)
    running, queued, _ = start(run)
    run.observe(running, None, AT)
    run.observe(running, RUNNING, AT)
    run.observe(queued, QUEUED, AT)
    assert run.take_report().executions == ()


def test_an_execution_that_lost_its_gpu_is_queued_again() -> None:
    run = opened()
    (due, *_) = start(run)
    states = []
    for view in (RUNNING, QUEUED, RUNNING):
        run.observe(due, view, AT)
        states += [one.state for one in run.take_report().executions]
    assert states == [ExecutionState.RUNNING, ExecutionState.QUEUED, ExecutionState.RUNNING]


REMOTE = RemoteRun(backend="eu-1", run_id="pred-17")
HALF = RunProgress(percent=50.0)
AT_PROVIDER = RUNNING.model_copy(update={"remote": REMOTE})


def test_a_run_at_a_backend_is_reported_with_its_start() -> None:
    run = opened()
    (due, *_) = start(run)
    run.observe(due, AT_PROVIDER, AT)
    assert run.names_new_run
    report = run.take_report()
    assert [one.state for one in report.executions] == [ExecutionState.RUNNING]
    assert [(one.remote, one.progress) for one in report.updates] == [(REMOTE, None)]
    run.observe(due, AT_PROVIDER, AT)
    assert (run.names_new_run, run.unrecorded) == (False, 0)


def test_the_run_of_a_dead_worker_is_sent_with_the_request() -> None:
    known = (RecordedExecution(0, ExecutionState.RUNNING, 2, remote=REMOTE),)
    run = opened(recorded_executions=known)
    first, second, _ = start(run)
    requests = [request_of(run.job, due, 60.0, ()) for due in (first, second)]
    assert [one.remote for one in requests] == [REMOTE, None]
    run.observe(first, None, AT)
    run.observe(first, AT_PROVIDER, AT)
    assert run.take_report().updates == ()


def test_a_run_that_failed_at_its_backend_is_forgotten() -> None:
    run = opened()
    (due, *_) = start(run)
    run.observe(due, AT_PROVIDER, AT)
    run.take_report()
    run.observe(due, at_router(InferenceState.BACKOFF), AT)
    assert not run.names_new_run
    assert [one.remote for one in run.take_report().updates] == [None]


def test_a_run_stays_known_while_no_router_accepts_its_execution() -> None:
    run = opened()
    (due, *_) = start(run)
    run.observe(due, AT_PROVIDER, AT)
    run.finish(due, NotAccepted(1.0, "no router answers"), AT)
    report = run.take_report()
    assert [one.remote for one in report.updates] == [REMOTE]
    assert [one.state for one in report.executions] == [ExecutionState.PENDING]


def test_progress_is_reported_when_it_changes() -> None:
    run = opened()
    (due, *_) = start(run)
    reported = []
    for progress in (None, HALF, HALF, RunProgress(percent=60.0)):
        run.observe(due, RUNNING.model_copy(update={"progress": progress}), AT)
        reported.append([one.progress for one in run.take_report().updates])
    assert reported == [[], [HALF], [], [RunProgress(percent=60.0)]]


def test_the_newest_progress_replaces_one_that_is_not_recorded() -> None:
    run = opened()
    (due, *_) = start(run)
    for progress in (HALF, RunProgress(percent=60.0), None):
        run.observe(due, AT_PROVIDER.model_copy(update={"progress": progress}), AT)
    assert [one.progress for one in run.take_report().updates] == [RunProgress(percent=60.0)]


def test_an_execution_that_waits_again_has_no_progress() -> None:
    run = opened()
    (due, *_) = start(run)
    with_progress = RUNNING.model_copy(update={"progress": HALF})
    for view in (with_progress, QUEUED):
        run.observe(due, view, AT)
    assert [one.progress for one in run.take_report().updates] == [None]
    run.observe(due, with_progress, AT)
    assert [one.progress for one in run.take_report().updates] == [HALF], "of the next run"


def test_an_ended_execution_reports_no_progress() -> None:
    run = opened()
    (due, *_) = start(run)
    run.observe(due, AT_PROVIDER.model_copy(update={"progress": HALF}), AT)
    run.finish(due, DONE, LATER)
    assert run.take_report().updates == ()


def test_a_late_state_of_an_ended_execution_is_ignored() -> None:
    run = opened()
    (due, *_) = start(run)
    run.finish(due, DONE, LATER)
    run.observe(due, RUNNING, LATER)
    assert [one.state for one in run.take_report().executions] == [ExecutionState.COMPLETED]


def test_a_start_and_its_end_are_one_report() -> None:
    run = opened()
    due = run.start_next(1)
    assert due is not None
    run.observe(due, RUNNING, AT)
    run.finish(due, DONE.model_copy(update={"timing": RUNNING.timing}), LATER)
    (report,) = run.take_report().executions
    assert (report.state, report.start_reported) == (ExecutionState.COMPLETED, False)
    assert (report.started_at, report.finished_at) == (LATER - 3.0, LATER)


def test_an_end_after_a_recorded_start_is_marked() -> None:
    run = opened()
    due = run.start_next(1)
    assert due is not None
    run.observe(due, RUNNING, AT)
    assert [report.state for report in run.take_report().executions] == [ExecutionState.RUNNING]
    run.finish(due, DONE, LATER)
    (report,) = run.take_report().executions
    assert report.start_reported
    assert run.take_report().executions == ()


@pytest.mark.parametrize(
    "outcome",
    [BROKEN, DONE.model_copy(update={"state": InferenceState.FAILED, "backend": None, "failure": BROKEN})],
)
def test_a_job_that_failed_before_any_run_never_started(outcome: Any) -> None:
    run = opened()
    (due, *_) = start(run)
    run.finish(due, outcome, LATER)
    report = run.take_report()
    assert [(one.state, one.started_at) for one in report.executions] == [(ExecutionState.FAILED, None)]
    assert [event.type for event in events_of(report)] == ["EXECUTION_FAILED"]


def test_an_empty_output_is_completed_and_the_region_it_ran_in_is_kept() -> None:
    run = opened()
    for due in start(run):
        run.finish(due, DONE, LATER)
    assert isinstance(verdict(run), Finished)
    report = run.take_report().executions[0]
    assert (report.output, report.actual_region, report.backend) == ("", "EU", "eu-1")


@pytest.mark.parametrize("output", ["\ud800", {"n": 2**70}, b"x", {1: {"deep": float}}])
def test_a_result_that_cannot_be_stored_fails_its_execution_alone(output: Any) -> None:
    run = opened()
    first, *others = start(run)
    run.finish(first, DONE.model_copy(update={"output": output}), LATER)
    for due in others:
        run.finish(due, DONE, LATER)
    judged = verdict(run)
    assert isinstance(judged, Dead)
    assert (judged.state, judged.failure.code) == (JobState.PARTIAL, NOT_RECORDABLE)
    assert [report.state for report in run.take_report().executions] == ["failed", "completed", "completed"]


def test_a_result_that_is_too_large_cannot_be_stored() -> None:
    refused = stored_form("x" * MAX_RESULT_BYTES)
    assert isinstance(refused, Failure)
    assert str(MAX_RESULT_BYTES) in refused.message
    assert stored_form({"text": "\0", "score": float("nan")}) == '{"text":"\\u0000","score":null}'


def test_a_failure_with_any_text_can_be_stored() -> None:
    run = opened()
    (first, *_) = start(run)
    run.finish(first, BROKEN.model_copy(update={"message": "bad\0byte"}), LATER)
    (report,) = run.take_report().executions
    assert report.failure is not None
    assert report.failure.message == "bad\ufffdbyte"


def test_a_job_with_an_invalid_spec_ends_without_a_run() -> None:
    run = opened(spec={"from": "another version"})
    assert isinstance(run.verdict, Dead)
    assert (run.verdict.state, run.verdict.failure.code) == (JobState.FAILED, "worker_error")
    assert run.take_report().executions == ()


def test_a_failure_names_its_item() -> None:
    run = opened()
    first, *others = start(run)
    run.finish(first, BROKEN, LATER)
    for due in others:
        run.finish(due, DONE, LATER)
    assert run.is_settled
    judged = verdict(run)
    assert isinstance(judged, RetryLater)
    assert judged.failure.item == "q0"


def test_a_busy_router_defers_the_other_executions() -> None:
    run = opened()
    first, second = start(run, 2)
    run.finish(first, NotAccepted(9.0, "full"), LATER)
    settled = [run.is_settled]
    assert start(run, 2) == []
    run.finish(second, DONE, LATER)
    assert [*settled, run.is_settled] == [False, True]
    assert verdict(run) == Deferred(9.0, "full")
    assert [report.execution.ordinal for report in run.take_report().executions] == [1]


@pytest.mark.parametrize("recorded", [False, True])
def test_a_deferred_execution_is_pending(recorded: bool) -> None:
    run = opened()
    (first,) = start(run, 1)
    run.observe(first, RUNNING, AT)
    if recorded:
        run.take_report()
    run.finish(first, NotAccepted(9.0, "full"), LATER)
    report = run.take_report()
    states = [(one.execution.ordinal, one.state, one.attempt) for one in report.executions]
    assert states == ([(0, ExecutionState.PENDING, 1)] if recorded else [])
    assert events_of(report) == []


def test_the_output_of_a_completed_step_is_in_the_verdict() -> None:
    run = opened(spec=PIPELINE, kind="pipeline", stages=2)
    (due,) = start(run)
    run.finish(due, DONE.model_copy(update={"output": {"answer": "yes"}}), LATER)
    assert verdict(run) == NextStage({"one": {"answer": "yes"}})


def test_a_stage_that_cannot_be_planned_ends_without_a_run() -> None:
    run = opened(spec=PIPELINE, kind="pipeline", stage=1, stages=2, context={"one": {}})
    assert start(run) == []
    assert isinstance(run.verdict, Dead)
    assert run.verdict.failure.code == "missing_result"
    assert [report.state for report in run.take_report().executions] == [ExecutionState.FAILED]


def test_the_request_carries_name_fence_and_front() -> None:
    job = claimed()
    run = build_run(Message(job.id, 1, 0, 1, JobClass.LOW, "anna"), job, AT, max_deliveries=3)
    _, second, _ = start(run)
    request = request_of(job, second, 60.0, ())
    assert request.request_id.endswith(".0.1")
    assert (request.fence, request.front, request.timeout_s) == (7, True, 60.0)
    assert request.meta is not None
    assert request.meta.attempt == 1


def test_the_longest_requested_delay_counts_within_the_bounds() -> None:
    policy = RetryPolicy(router=RouterBackoff(unreachable_s=5, min_s=0.5, max_s=60))

    def delay_s(*requested: float | None) -> float:
        run = opened()
        for pending, one in zip(start(run), requested, strict=True):
            run.finish(pending, NotAccepted(one, "full"), AT)
        verdict = run.decide(policy, 0.0)
        assert isinstance(verdict, Deferred)
        return verdict.delay_s

    assert [delay_s(0, 0, one) for one in (0, 3, 9_999)] == [0.5, 3, 60]
    assert delay_s(0, None, 3) == 5


def test_after_a_cancel_at_the_router_no_execution_is_started() -> None:
    """Usually the whole job was cancelled; executions that the worker started would run to their end."""
    run = opened()
    first = run.start_next(1)
    assert first is not None
    run.finish(first, DONE.model_copy(update={"state": InferenceState.CANCELLED}), AT)
    assert run.start_next(1) is None
    assert run.is_settled
    assert run.decide(RetryPolicy(), 0.5) == Deferred(0.0, "an execution was cancelled at the router")


def test_the_router_learns_how_many_executions_follow_each_one() -> None:
    """With two at a time, the first of three is followed by the third."""
    run = build_run(
        Message(JobId(new_uuid()), 1, 0, 1, JobClass.LOW, "anna"), claimed(), AT, max_deliveries=3
    )
    assert isinstance(run, JobRun)

    started = [run.start_next(2), run.start_next(2)]

    assert [one.following for one in started if one is not None] == [1, 0]


def test_outputs_are_not_kept_until_the_job_ends() -> None:
    """A job may have thousands of executions with large outputs."""
    run = opened(spec=MATRIX | {"questions": [{"id": f"q{n}", "prompt": "?"} for n in range(20)]})
    size, executions = 1_000_000, start(run, 100)
    tracemalloc.start()
    try:
        for number, pending in enumerate(executions):
            view = DONE.model_copy(update={"output": f"{number}" * size, "response": {"text": "x" * size}})
            run.finish(pending, view, AT)
            assert len(run.take_report().executions) == 1
            del view
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < size
    assert verdict(run) == Finished(JobState.COMPLETED, {})
