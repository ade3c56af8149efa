"""A worker with lost fences, poison jobs, unstorable results, unavailable servers, and a stop."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest

from beacon_contracts.ids import JobId
from beacon_contracts.inference import InferenceView
from beacon_contracts.jobs import JobState
from beacon_contracts.tiers import JobClass
from beacon_lifecycle import ManualClock
from beacon_runner.domain.errors import StoreUnavailableError
from beacon_runner.domain.execution.plan import PendingExecution
from beacon_runner.domain.execution.stage_result import ClaimedJob, Deferred, StageReport
from beacon_runner.domain.queue.messages import Message
from beacon_runner.postgres.jobs.claims import PostgresClaims
from beacon_runner.worker.run import Outcome, build_run
from tests.fixtures.waiting import WAIT_TIMEOUT_S, until
from tests.integration.runner_loops.assertions import event_types_of, is_in, make_due
from tests.integration.runner_loops.harness import (
    ALL_CLASSES,
    LoopHarness,
    ScriptedExecutor,
    completed,
    failed,
    matrix,
    pipeline,
)

NOW = 1_767_225_600.0


async def test_a_message_of_an_old_generation_is_dropped(harness: LoopHarness) -> None:
    (job,) = await harness.queued()
    await harness.cancel(job)
    executor = ScriptedExecutor()
    async with harness.worker(executor):
        await harness.nothing_left()
    assert executor.runs == []
    assert harness.transport.metrics.stale_claims._value.get() == 1


async def test_a_job_cancelled_while_it_runs_stays_cancelled(harness: LoopHarness) -> None:
    executor = ScriptedExecutor()
    (job,) = await harness.queued()
    async with harness.worker(executor):
        (run,) = await executor.started(1)
        await harness.cancel(job)
        run.done(completed("too late"))
        await harness.nothing_left()
    assert (await harness.job(job))["state"] == "cancelled"
    assert "too late" not in str(await harness.executions(job))


async def test_a_worker_that_lost_its_fence_changes_nothing_and_stops(harness: LoopHarness) -> None:
    executor = ScriptedExecutor()
    (job,) = await harness.queued()
    async with harness.worker(executor):
        (run,) = await executor.started(1)
        messages = [live.message for live in await harness.live.live_page(None, 10)]
        assert len(await harness.claims.claim(messages, "other")) == 1  # as after a freeze past the lease
        run.done(completed("from the loser"))
        await until(lambda: _fence_lost(harness), "the worker sees that it lost its fence")
        assert (await harness.job(job))["finished_at"] is None
    assert "from the loser" not in str(await harness.executions(job))


async def test_a_replaced_delivery_is_not_renewed(database_url: str, redis_url: str) -> None:
    """A worker froze, another continued its job, and the first one got the next message."""
    executor = ScriptedExecutor()
    async with LoopHarness.on(database_url, redis_url, lease_s=2.0, heartbeat_s=0.05) as harness:
        (job,) = await harness.queued()
        async with harness.worker(executor):
            (first,) = await executor.started(1)
            await until(
                lambda: harness.executions(job), "its start is written, so that nothing is refused later"
            )
            message = Message(job, 1, 0, 1, JobClass.LOW, first.job.user.hex)
            (taken,) = await harness.claims.claim([message], "another")
            await harness.claims.record([StageReport(taken, verdict=Deferred(0.0, "full"))])
            await harness.queue.ack([message])
            await harness.publish()
            await until(partial(harness.queue.promote_due_retries, 10), "the next message is due")
            (_, second) = await executor.started(2)
            assert first.given_up
            second.done(completed())
            assert await harness.ended(job) == ["completed"]

            async def forgotten() -> bool:
                await harness.queue.reclaim(10)
                return not await harness.transport.redis.exists("jobs:live")

            await until(forgotten, "Redis has forgotten the first message")


class Noticing(PostgresClaims):
    """Notes that a report could not be written now."""

    def __init__(self, harness: LoopHarness) -> None:
        super().__init__(harness.database)
        self.waits = asyncio.Event()

    async def record(self, reports: Sequence[StageReport]) -> frozenset[JobId]:
        try:
            return await super().record(reports)
        except StoreUnavailableError:
            self.waits.set()
            raise


async def test_results_wait_while_the_schema_is_outdated(harness: LoopHarness) -> None:
    """The job is neither ended as not recordable nor run again."""
    executor, claims = ScriptedExecutor(), Noticing(harness)
    (job,) = await harness.queued(body=pipeline())
    async with harness.worker(executor, claims):
        (first,) = await executor.started(1)
        await until(lambda: harness.executions(job), "its start is written")
        await harness.database.execute("ALTER TABLE jobs RENAME COLUMN deferred TO postponed")
        first.done(completed({"enhanced_prompt": "a bright city"}))
        await asyncio.wait_for(claims.waits.wait(), WAIT_TIMEOUT_S)
        await harness.database.execute("ALTER TABLE jobs RENAME COLUMN postponed TO deferred")
        await until(harness.publish, "the next step is in the outbox")
        (_, second) = await executor.started(2)
        second.done(completed({"generated_text": "!"}))
        assert await harness.ended(job) == ["completed"]
    assert len(executor.runs) == 2


async def test_a_job_that_kills_its_workers_is_ended_as_poison(harness: LoopHarness) -> None:
    (job,) = await harness.queued()
    for number in range(harness.config.runner.max_deliveries):
        messages = await harness.queue.claim(ALL_CLASSES, 1, f"victim-{number}")
        assert len(await harness.claims.claim(messages, f"victim-{number}")) == 1
        await harness.queue.nack(messages, f"victim-{number}")
    executor = ScriptedExecutor()
    async with harness.worker(executor):
        assert await harness.ended(job) == ["failed"]
        await harness.nothing_left()
    assert executor.runs == []
    dead_letters = await harness.database.fetch("SELECT reason FROM dead_letters WHERE job_id = $1", job)
    assert [row["reason"] for row in dead_letters] == ["poison"]


class LosingAnswers:
    """Postgres whose responses are lost although the statements are executed."""

    def __init__(self, database: Any) -> None:
        self._database = database
        self.losing = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    async def fetch(self, *arguments: Any) -> Any:
        rows = await self._database.fetch(*arguments)
        if self.losing:
            raise StoreUnavailableError("connection lost")
        return rows


async def test_unanswered_claims_do_not_count_as_deliveries(
    harness: LoopHarness,
) -> None:
    (job,) = await harness.queued()
    flapping = LosingAnswers(harness.database)
    claims = PostgresClaims(flapping)  # type: ignore[arg-type]
    for _ in range(harness.config.runner.max_deliveries + 1):
        messages = await harness.queue.claim(ALL_CLASSES, 1, "unlucky")
        flapping.losing = True
        with pytest.raises(StoreUnavailableError):
            await claims.claim(messages, "unlucky")
        flapping.losing = False
        await harness.queue.nack(messages, "unlucky")
    async with harness.worker(ScriptedExecutor(at_once=lambda *_: completed()), claims):
        assert await harness.ended(job) == ["completed"]


async def test_a_pipeline_that_ends_after_a_completed_step_is_partial(
    harness: LoopHarness,
) -> None:
    failing, killing = await harness.queued(2, body=pipeline())
    first = ScriptedExecutor(at_once=lambda *_: completed({"enhanced_prompt": "a bright city"}))
    async with harness.worker(first):
        await until(lambda: _second_stage(harness, failing, killing), "both have finished their first step")
    await harness.publish()
    for number in range(harness.config.runner.max_deliveries):
        messages = await harness.queue.claim(ALL_CLASSES, 2, f"victim-{number}")
        await harness.claims.claim([one for one in messages if one.job == killing], f"victim-{number}")
        await harness.queue.nack(messages, f"victim-{number}")
    async with harness.worker(ScriptedExecutor(at_once=lambda *_: failed(retryable=False))):
        assert await harness.ended(failing, killing) == ["partial", "partial"]
    assert (
        (await event_types_of(harness, failing))[-1]
        == (await event_types_of(harness, killing))[-1]
        == "JOB_PARTIAL"
    )
    assert (await harness.job(failing))["context"] == {
        "prompt_enhancer": {"enhanced_prompt": "a bright city"}
    }


async def test_a_job_with_progress_between_crashes_is_no_poison(harness: LoopHarness) -> None:
    questions = harness.config.runner.max_deliveries + 2
    (job,) = await harness.queued(body=matrix(questions=questions))
    for ordinal in range(questions):
        messages = await harness.queue.claim(ALL_CLASSES, 1, "victim")
        (claimed,) = await harness.claims.claim(messages, "victim")
        run = build_run(messages[0], claimed, NOW, max_deliveries=3)
        started = run.start_next(1)
        assert started is not None
        assert started.execution.ordinal == ordinal
        run.finish(started, completed(), NOW)
        await harness.claims.record([run.take_report()])
        await harness.queue.nack(messages, "victim")  # it died, and the reaper came
    async with harness.worker(ScriptedExecutor()):
        assert await harness.ended(job) == ["completed"]


async def test_an_unstorable_result_ends_only_its_job(harness: LoopHarness) -> None:
    jobs = await harness.queued(3)
    executor = ScriptedExecutor(at_once=lambda job, _: completed("\ud800" if job.id == jobs[1] else "fine"))
    async with harness.worker(executor):
        assert await harness.ended(*jobs) == ["completed", "failed", "completed"]
    assert (await harness.job(jobs[1]))["failure"]["code"] == "result_not_recordable"


async def test_a_failure_reported_twice_counts_once(harness: LoopHarness) -> None:
    """Incident 11: a failure fired two signals, and the load counter of its lane went wrong for good."""
    executor = ScriptedExecutor()
    jobs = await harness.queued(2)
    async with harness.worker(executor):
        first, second = await executor.started(2)
        messages = [live.message for live in await harness.live.live_page(None, 9)]
        first.done(failed(retryable=False))
        await harness.ended(first.job.id)
        await until(lambda: _leased(harness, 1), "the first is done with")
        await harness.queue.ack([message for message in messages if message.job == first.job.id])
        assert (await harness.transport.queue_admin.stats()).leased == 1
        assert await harness.transport.queue_admin.reset_lanes() == []
        second.done(completed())
        await harness.ended(*jobs)
        await harness.nothing_left()


async def test_requested_and_actual_region_are_recorded(harness: LoopHarness) -> None:
    """Incident 6: a retry "for EU" ran in the US, and the record said EU."""
    elsewhere = completed().model_copy(update={"actual_region": "EU", "backend": "eu-1"})
    (job,) = await harness.queued()
    async with harness.worker(ScriptedExecutor(at_once=lambda *_: elsewhere)):
        assert await harness.ended(job) == ["completed"]
    (row,) = await harness.executions(job)
    assert (row["region"], row["actual_region"], row["backend"]) == ("US", "EU", "eu-1")


async def test_an_unstorable_result_fails_only_its_execution(harness: LoopHarness) -> None:
    (job,) = await harness.queued(body=matrix(questions=3))
    executor = ScriptedExecutor(
        at_once=lambda _, due: completed({"n": 2**70} if due.execution.ordinal == 1 else "fine")
    )
    async with harness.worker(executor):
        assert await harness.ended(job) == ["partial"]
    assert [row["output"] for row in await harness.executions(job)] == ["fine", None, "fine"]


async def test_a_job_that_cannot_start_does_not_affect_others(harness: LoopHarness) -> None:
    """Incident 14: slots leaked, and a tenant stood still with its jobs waiting and idle workers."""
    slots = harness.config.pools["all"].slots
    strange = await harness.queued(slots + 1)
    await harness.database.execute("UPDATE jobs SET spec = '{}' WHERE id = ANY ($1::uuid[])", strange)
    (ordinary,) = await harness.queued()
    async with harness.worker(ScriptedExecutor(at_once=lambda *_: completed())):
        assert await harness.ended(*strange) == ["failed"] * len(strange)
        assert await harness.ended(ordinary) == ["completed"]
        await harness.nothing_left()
    assert (await harness.job(strange[0]))["failure"]["code"] == "worker_error"


async def test_an_execution_that_cannot_start_does_not_affect_others(harness: LoopHarness) -> None:
    class Stumbling(ScriptedExecutor):
        async def run(
            self,
            job: ClaimedJob,
            started: PendingExecution,
            on_state: Callable[[InferenceView | None], None],
        ) -> Outcome:
            if started.execution.ordinal == 1 and started.attempt == 1:
                raise ValueError("what is this?")
            return await super().run(job, started, on_state)

    (job,) = await harness.queued(body=matrix(questions=3))
    async with harness.worker(Stumbling(at_once=lambda *_: completed())):
        await until(lambda: is_in(harness, job, JobState.RETRYING), "the job is to be tried again")
        assert [row["state"] for row in await harness.executions(job)] == [
            "completed",
            "pending",
            "completed",
        ]
        await make_due(harness)
        assert await harness.ended(job) == ["completed"]


async def test_a_worker_frozen_after_its_lease_does_not_claim(database_url: str, redis_url: str) -> None:
    """Its lease may have expired: a claim now would take the job from the worker that has it."""
    clock = ManualClock()
    async with LoopHarness.on(database_url, redis_url, clock=clock) as harness:
        (job,) = await harness.queued()
        claim = harness.queue.claim

        async def slow_claim(*arguments: Any) -> Any:
            messages = await claim(*arguments)
            await clock.advance(harness.config.runner.lease_s * 0.9)
            return messages

        harness.queue.claim = slow_claim
        executor = ScriptedExecutor(at_once=lambda *_: completed())
        async with harness.worker(executor):
            await until(lambda: _waiting(harness), "the message waits again")
            assert executor.runs == []
            assert (await harness.job(job))["deliveries"] == 0


async def test_results_are_kept_while_postgres_is_unavailable(harness: LoopHarness) -> None:
    class Away:
        def __init__(self) -> None:
            self.refusals = 2
            self.claim = harness.claims.claim

        async def record(self, reports: Any) -> frozenset[JobId]:
            if self.refusals:
                self.refusals -= 1
                raise StoreUnavailableError("restarting")
            return await harness.claims.record(reports)

    (job,) = await harness.queued()
    async with harness.worker(ScriptedExecutor(at_once=lambda *_: completed()), Away()):
        assert await harness.ended(job) == ["completed"]


async def test_no_claim_is_lost_while_postgres_is_unavailable(harness: LoopHarness) -> None:
    class Away:
        def __init__(self) -> None:
            self.called = asyncio.Event()
            self.record = harness.claims.record

        async def claim(self, *_: Any) -> Any:
            self.called.set()
            raise StoreUnavailableError("restarting")

    away = Away()
    (job,) = await harness.queued()
    async with harness.worker(ScriptedExecutor(), away):
        await away.called.wait()
        await until(lambda: _waiting(harness), "the message is back in its lane")
    assert (await harness.job(job))["deliveries"] == 0


async def test_a_stopping_worker_returns_unfinished_jobs(harness: LoopHarness) -> None:
    executor = ScriptedExecutor()
    (job,) = await harness.queued(body=matrix(questions=2))
    async with harness.worker(executor):
        first, second = await executor.started(2)
        first.done(completed("kept"))
    assert second.given_up
    row = await harness.job(job)
    assert (row["state"], row["attempt"], row["deliveries"], row["generation"]) == ("processing", 1, 0, 1)
    assert [message.job for message in await harness.queue.claim(ALL_CLASSES, 5, "next")] == [job]
    assert (await harness.executions(job))[0]["output"] == "kept"
    await harness.queue.nack([live.message for live in await harness.live.live_page(None, 5)], "next")
    again = ScriptedExecutor(at_once=lambda *_: completed())
    async with harness.worker(again):
        assert await harness.ended(job) == ["completed"]
    assert [run.due.execution.ordinal for run in again.runs] == [1]  # what had ended is not run again


async def test_a_stopping_worker_waits_for_runs_that_end_soon(harness: LoopHarness) -> None:
    executor = ScriptedExecutor()
    harness.transport.live.current = harness.config.model_copy(
        update={"runner": harness.config.runner.model_copy(update={"stop_grace_s": 20.0})}
    )
    (job,) = await harness.queued()
    async with harness.worker(executor):
        (run,) = await executor.started(1)
        asyncio.get_running_loop().call_later(0.05, run.done, completed())
    assert (await harness.job(job))["state"] == "completed"
    await harness.nothing_left()


async def _waiting(harness: LoopHarness) -> int:
    return sum((await harness.transport.queue_admin.stats()).waiting.values())


async def _leased(harness: LoopHarness, count: int) -> bool:
    return (await harness.transport.queue_admin.stats()).leased == count


async def _fence_lost(harness: LoopHarness) -> bool:
    return bool(harness.transport.metrics.fence_conflicts._value.get())


async def _second_stage(harness: LoopHarness, *jobs: JobId) -> bool:
    return [(await harness.job(job))["stage"] for job in jobs] == [1] * len(jobs)
