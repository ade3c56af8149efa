"""A worker from message to recorded verdict: jobs, failures, waits."""

from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import Any

from beacon_contracts.ids import JobId
from beacon_contracts.inference import InferenceState
from beacon_contracts.jobs import JobState
from beacon_runner.worker.run import NotAccepted, Outcome
from tests.fixtures.waiting import until
from tests.integration.runner_loops.assertions import event_types_of, is_in, make_due
from tests.integration.runner_loops.harness import (
    LoopHarness,
    ScriptedExecutor,
    completed,
    failed,
    matrix,
    pipeline,
)
from tests.integration.runner_store.harness import StoreHarness


async def test_a_job_runs_once_and_leaves_nothing_in_redis(harness: LoopHarness) -> None:
    executor = ScriptedExecutor(at_once=lambda *_: completed({"text": "meow"}))
    async with harness.worker(executor):
        jobs = await harness.queued(5)
        assert await harness.ended(*jobs) == ["completed"] * 5
        await harness.nothing_left()
    assert sorted(run.job.id for run in executor.runs) == sorted(jobs)
    (execution,) = await harness.executions(jobs[0])
    assert (execution["state"], execution["output"]) == ("completed", {"text": "meow"})
    assert (execution["backend"], execution["actual_region"]) == ("us-1", "US")


async def test_the_complete_response_is_kept_next_to_the_output(harness: LoopHarness) -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "\u0000{}"}}
    choice = {"finish_reason": "tool_calls", "message": {"content": None, "tool_calls": [call]}}
    response = {"choices": [choice], "usage": {"total_tokens": 7}}
    view = completed("").model_copy(update={"response": response})
    async with harness.worker(ScriptedExecutor(at_once=lambda *_: view)):
        (job,) = await harness.queued()
        assert await harness.ended(job) == ["completed"]
    (row,) = await harness.executions(job)
    assert (row["output"], row["response"]) == ("", response)
    (recorded,) = (await StoreHarness(harness.database).executions(job)).values()
    assert recorded.response == response


async def test_a_running_execution_is_recorded_before_it_ends(harness: LoopHarness) -> None:
    executor = ScriptedExecutor()
    (job,) = await harness.queued()
    async with harness.worker(executor):
        (run,) = await executor.started(1)
        await until(lambda: _execution_states(harness, job, "running"), "it is seen to run")
        assert (await harness.job(job))["state"] == "processing"
        run.done(completed())
        assert await harness.ended(job) == ["completed"]


async def test_a_job_that_waits_at_a_router_is_queued(harness: LoopHarness) -> None:
    executor = ScriptedExecutor(starts=False)
    (job,) = await harness.queued(body=matrix(questions=2))
    async with harness.worker(executor):
        first, second = await executor.started(2)
        await until(partial(_execution_states, harness, job, "queued", "queued"), "both are seen to wait")
        row = await harness.job(job)
        assert (row["state"], row["started_at"]) == ("queued", None)
        second.moved(InferenceState.WARMING)
        await until(partial(_execution_states, harness, job, "queued", "running"), "the start is seen")
        row = await harness.job(job)
        assert (row["state"], row["started_at"] is None) == ("processing", False)
        second.moved(InferenceState.BACKOFF)
        await until(partial(_execution_states, harness, job, "queued", "queued"), "it waits again")
        assert (await harness.job(job))["state"] == "processing"  # it has started
        first.done(completed())
        second.done(completed())
        assert await harness.ended(job) == ["completed"]
    events = await event_types_of(harness, job)
    assert events[1:5] == ["EXECUTION_QUEUED", "EXECUTION_QUEUED", "EXECUTION_START", "EXECUTION_QUEUED"]


async def test_a_job_between_two_stages_or_attempts_is_queued(harness: LoopHarness) -> None:
    executor = ScriptedExecutor(starts=False)
    (job,) = await harness.queued(body=pipeline())
    async with harness.worker(executor):
        (first,) = await executor.started(1)
        first.moved(InferenceState.RUNNING)
        await until(lambda: is_in(harness, job, JobState.PROCESSING), "the first stage runs")
        first.done(completed({"enhanced_prompt": "a bright city"}))
        await until(lambda: _publish_some(harness), "the next stage is in the outbox")
        (_, second) = await executor.started(2)
        await until(partial(_execution_states, harness, job, "completed", "queued"), "it waits there")
        assert (await harness.job(job))["state"] == "queued"
        second.done(failed())
        await until(lambda: is_in(harness, job, JobState.RETRYING), "it waits for the next attempt")
        await make_due(harness)
        (*_, third) = await executor.started(3)
        await until(partial(_execution_states, harness, job, "completed", "queued"), "it waits there")
        assert (await harness.job(job))["state"] == "queued"
        third.moved(InferenceState.RUNNING)
        await until(lambda: is_in(harness, job, JobState.PROCESSING), "the second attempt runs")
        third.done(completed({"generated_text": "!"}))
        assert await harness.ended(job) == ["completed"]


async def test_a_matrix_runs_at_most_the_configured_parallelism(harness: LoopHarness) -> None:
    executor = ScriptedExecutor()
    harness.transport.live.current = harness.config.model_copy(
        update={"limits": harness.config.limits.model_copy(update={"job_parallelism": 4})}
    )
    (job,) = await harness.queued(body=matrix(questions=3, models=3))
    async with harness.worker(executor):
        for ended in range(9):
            await executor.started(min(9, ended + 4))
            assert len(executor.runs) == min(9, ended + 4)
            executor.runs[ended].done(completed())
        assert await harness.ended(job) == ["completed"]
    assert [row["ordinal"] for row in await harness.executions(job)] == list(range(9))


async def test_a_partial_job_is_terminal_only_when_all_has_ended(harness: LoopHarness) -> None:
    executor = ScriptedExecutor()
    (job,) = await harness.queued(body=matrix(questions=2))
    async with harness.worker(executor):
        first, second = await executor.started(2)
        first.done(failed(retryable=False))
        await until(lambda: _execution_states(harness, job, "failed", "running"), "the first has failed")
        assert (await harness.job(job))["state"] == "processing"
        second.done(completed())
        assert await harness.ended(job) == ["partial"]
    await harness.publish()
    assert (await harness.transport.queue_admin.stats()).dead == 1


async def test_only_the_failed_executions_run_again(harness: LoopHarness) -> None:
    executor = ScriptedExecutor(
        at_once=lambda _, due: failed() if due.execution.ordinal == 1 and due.attempt == 1 else completed()
    )
    (job,) = await harness.queued(body=matrix(questions=3))
    async with harness.worker(executor):
        await until(lambda: is_in(harness, job, JobState.RETRYING), "the job waits for its retry")
        await make_due(harness)
        assert await harness.ended(job) == ["completed"]
        await harness.nothing_left()
    assert [(run.due.execution.ordinal, run.due.attempt) for run in executor.runs] == [
        (0, 1),
        (1, 1),
        (2, 1),
        (1, 2),
    ]


async def test_a_job_is_dead_after_its_last_retry(harness: LoopHarness) -> None:
    executor = ScriptedExecutor(at_once=lambda *_: failed())
    (job,) = await harness.queued()
    async with harness.worker(executor):
        for attempt in range(1, harness.config.runner.job_retries + 1):
            await until(partial(_attempt, harness, job, attempt + 1), f"attempt {attempt} has failed")
            await make_due(harness)
        assert await harness.ended(job) == ["failed"]
    dead_letters = await harness.database.fetch("SELECT reason FROM dead_letters WHERE job_id = $1", job)
    assert [row["reason"] for row in dead_letters] == ["attempts_used_up"]
    assert len(executor.runs) == harness.config.runner.job_retries + 1


async def test_a_router_that_is_busy_costs_no_attempt(harness: LoopHarness) -> None:
    answers: Iterator[Outcome] = iter([NotAccepted(30.0, "queue full"), completed()])
    executor = ScriptedExecutor(at_once=lambda *_: next(answers))
    (job,) = await harness.queued()
    async with harness.worker(executor):
        await until(lambda: _next_attempt(harness, job), "the job waits for the router")
        row = await harness.job(job)
        assert (row["state"], row["attempt"], row["generation"]) == ("queued", 1, 2)
        await make_due(harness)
        assert await harness.ended(job) == ["completed"]
    assert [run.due.attempt for run in executor.runs] == [1, 1]


async def test_a_long_busy_router_is_recorded_once(harness: LoopHarness) -> None:
    """Thousands of jobs that recorded every retry filled the disk while the router was unavailable."""
    executor = ScriptedExecutor(accepts=False)
    (job,) = await harness.queued()
    delays = []
    async with harness.worker(executor):
        for turn, reason in enumerate(["away", "away", "away", "full", "full"], start=1):
            run = (await executor.started(turn))[-1]
            run.done(NotAccepted(0.1, reason))
            row = await until(partial(_postponed, harness, job, turn), "the job waits for the router")
            delays.append(row["deferred"]["delay_s"])
            await make_due(harness)
        (*_, last) = await executor.started(6)
        last.done(completed())
        assert await harness.ended(job) == ["completed"]
    assert await event_types_of(harness, job) == [
        "JOB_QUEUED",
        "WAITING",
        "WAITING",
        "EXECUTION_START",
        "EXECUTION_COMPLETE",
        "JOB_COMPLETE",
    ]
    assert delays[0] >= 0.5  # the smallest delay
    assert all(later > earlier for earlier, later in pairwise(delays[1:]))
    assert (await harness.job(job))["attempt"] == 1


async def test_an_execution_that_the_router_refused_is_not_running(harness: LoopHarness) -> None:
    executor = ScriptedExecutor()
    (job,) = await harness.queued()
    async with harness.worker(executor):
        (run,) = await executor.started(1)
        await until(lambda: harness.executions(job), "its start is recorded")
        run.done(NotAccepted(30.0, "queue full"))
        await until(lambda: _next_attempt(harness, job), "the job waits for the router")
        (shown,) = (await StoreHarness(harness.database).executions(job)).values()
        newest = shown.newest
        assert (newest.state, newest.attempt, newest.started_at) == ("pending", 1, None)
        await make_due(harness)
        (_, again) = await executor.started(2)
        again.done(completed())
        assert await harness.ended(job) == ["completed"]


async def test_results_are_recorded_while_the_rest_of_the_matrix_waits(harness: LoopHarness) -> None:
    executor = ScriptedExecutor(
        at_once=lambda job, due: (
            NotAccepted(30.0, "full") if due.execution.ordinal > 0 and job.generation == 1 else completed()
        )
    )
    (job,) = await harness.queued(body=matrix(questions=3))
    async with harness.worker(executor):
        await until(lambda: _next_attempt(harness, job), "the job waits for the router")
        await make_due(harness)
        assert await harness.ended(job) == ["completed"]
    assert [run.due.execution.ordinal for run in executor.runs] == [0, 1, 2, 1, 2]


async def test_a_pipeline_step_receives_the_result_before_it(harness: LoopHarness) -> None:
    outputs = {
        "prompt_enhancer": {"enhanced_prompt": "a bright city"},
        "fast_chat_llm": {"generated_text": "!"},
    }
    executor = ScriptedExecutor(at_once=lambda _, due: completed(outputs[due.execution.item]))
    (job,) = await harness.queued(body=pipeline())
    async with harness.worker(executor):
        await until(lambda: _publish_some(harness), "the next stage is in the outbox")
        assert await harness.ended(job) == ["completed"]
    assert [run.due.execution.input for run in executor.runs] == [
        {"prompt": "a city"},
        {"prompt": "a bright city"},
    ]
    assert (await harness.job(job))["context"] == outputs


async def test_a_step_that_lacks_its_input_ends_the_job_with_the_reason(harness: LoopHarness) -> None:
    executor = ScriptedExecutor(at_once=lambda *_: completed({"something": "else"}))
    (job,) = await harness.queued(body=pipeline())
    async with harness.worker(executor):
        await until(lambda: _publish_some(harness), "the next stage is in the outbox")
        assert await harness.ended(job) == ["partial"]  # the first step is complete
    assert (await harness.job(job))["failure"]["code"] == "missing_result"
    assert len(executor.runs) == 1


async def _publish_some(harness: LoopHarness) -> int:
    return (await harness.publisher.run_once()).count


async def _attempt(harness: LoopHarness, job: JobId, attempt: int) -> bool:
    row = await harness.job(job)
    return bool(row["attempt"] == attempt and row["state"] == JobState.RETRYING)


async def _postponed(harness: LoopHarness, job: JobId, times: int) -> Any:
    row = await harness.job(job)
    return row if (row["deferred"] or {}).get("times") == times else None


async def _next_attempt(harness: LoopHarness, job: JobId) -> Any:
    return (await harness.job(job))["next_attempt_at"]


async def _execution_states(harness: LoopHarness, job: JobId, *states: str) -> bool:
    return [row["state"] for row in await harness.executions(job)] == list(states)
