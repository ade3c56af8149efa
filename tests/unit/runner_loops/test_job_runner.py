"""The jobs of a process: release and metrics."""

from unittest.mock import create_autospec

from prometheus_client import CollectorRegistry

from beacon_contracts.tiers import JobClass
from beacon_lifecycle import SystemClock
from beacon_runner.domain.execution.retry_policy import RetryPolicy
from beacon_runner.domain.queue.messages import Message
from beacon_runner.metrics import LoopMetrics
from beacon_runner.worker.executor import RouterExecutor
from beacon_runner.worker.in_flight import InFlight
from beacon_runner.worker.job_runner import JobRunner
from beacon_runner.worker.pending_reports import PendingReports
from beacon_runner.worker.run import build_run
from tests.unit.runner_loops.test_job_run import AT, claimed


async def test_lost_leases_are_released_and_not_counted_as_fence_conflicts() -> None:
    registry = CollectorRegistry()
    executor = create_autospec(RouterExecutor, instance=True)
    in_flight = InFlight(max_jobs=10)
    runner = JobRunner(
        executor,
        PendingReports(),
        in_flight,
        SystemClock(),
        LoopMetrics(registry),
        policy=RetryPolicy,
        parallelism=2,
    )
    job, freed = claimed(), list[str]()
    message = Message(job.id, 1, 0, 1, JobClass.LOW, "lane")
    runner.begin(build_run(message, job, AT, max_deliveries=3), lambda: freed.append("slot"))

    assert runner.release_lost([message.id, "unknown:1"]) == [message]

    assert (len(runner), in_flight.jobs, freed) == (0, 0, ["slot"])
    assert registry.get_sample_value("beacon_runner_leases_lost_total") == 1
    assert registry.get_sample_value("beacon_runner_fence_conflicts_total") == 0
