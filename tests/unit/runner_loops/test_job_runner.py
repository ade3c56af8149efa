"""The jobs of a process: release and metrics."""

import asyncio
from unittest.mock import create_autospec

from prometheus_client import CollectorRegistry

from beacon_contracts.jobs import ExecutionState
from beacon_contracts.tiers import JobClass
from beacon_lifecycle import SystemClock
from beacon_runner.domain.execution.retry_policy import RetryPolicy
from beacon_runner.domain.execution.stage_result import ExecutionReport
from beacon_runner.domain.queue.messages import Message
from beacon_runner.metrics import LoopMetrics
from beacon_runner.worker.executor import Executor, RouterExecutor
from beacon_runner.worker.in_flight import InFlight
from beacon_runner.worker.job_runner import JobRunner
from beacon_runner.worker.pending_reports import PendingReports
from beacon_runner.worker.run import build_run
from tests.fixtures.waiting import WAIT_TIMEOUT_S
from tests.unit.runner_loops.test_job_run import AT, DONE, claimed


def runner_of(
    executor: Executor, reports: PendingReports, in_flight: InFlight, registry: CollectorRegistry
) -> JobRunner:
    metrics = LoopMetrics(registry)
    return JobRunner(executor, reports, in_flight, SystemClock(), metrics, policy=RetryPolicy, parallelism=2)


async def test_lost_leases_are_released_and_not_counted_as_fence_conflicts() -> None:
    registry = CollectorRegistry()
    executor = create_autospec(RouterExecutor, instance=True)
    in_flight = InFlight(max_jobs=10)
    runner = runner_of(executor, PendingReports(), in_flight, registry)
    job, freed = claimed(), list[str]()
    message = Message(job.id, 1, 0, 1, JobClass.LOW, "lane")
    runner.begin(build_run(message, job, AT, max_deliveries=3), lambda: freed.append("slot"))

    assert runner.release_lost([message.id, "unknown:1"]) == [message]

    await runner.close()
    assert (len(runner), in_flight.jobs, freed) == (0, 0, ["slot"])
    assert registry.get_sample_value("beacon_runner_leases_lost_total") == 1
    assert registry.get_sample_value("beacon_runner_fence_conflicts_total") == 0


async def test_an_unexpected_error_of_an_execution_is_a_retryable_failure() -> None:
    """Only this execution fails: the others run, and the worker continues."""
    executor = create_autospec(RouterExecutor, instance=True)
    executor.run.side_effect = [ValueError("a bug"), DONE, DONE]
    reports = PendingReports()
    runner = runner_of(executor, reports, InFlight(max_jobs=10), CollectorRegistry())
    job = claimed()
    message = Message(job.id, 1, 0, 1, JobClass.LOW, "lane")
    runner.begin(build_run(message, job, AT, max_deliveries=3), lambda: None)

    executions: dict[int, ExecutionReport] = {}
    async with asyncio.timeout(WAIT_TIMEOUT_S):
        while len(executions) < 3:
            (run,) = await reports.take()
            executions |= {one.execution.ordinal: one for one in run.take_report().executions}
            reports.written([run])
    await runner.close()

    failed, *others = [executions[ordinal] for ordinal in range(3)]
    assert failed.failure is not None
    assert (failed.failure.code, failed.failure.retryable) == ("worker_error", True)
    assert [one.state for one in others] == [ExecutionState.COMPLETED] * 2
    assert not runner.failed.is_set()
