"""Writes the reports of runs to Postgres, then releases what has ended and updates Redis.

Several writers run concurrently, so that the worker continues while Postgres writes; see ADR 12.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog

from beacon_contracts.ids import JobId
from beacon_contracts.jobs import ExecutionState
from beacon_lifecycle import Clock
from beacon_runner.domain.errors import QueueUnavailableError, StoreUnavailableError
from beacon_runner.domain.execution.stage_result import Dead, Finished, Returned, StageReport
from beacon_runner.domain.execution.verdict import dead_verdict
from beacon_runner.domain.inputs.json_limits import NOT_RECORDABLE, unstorable
from beacon_runner.domain.queue.messages import Message
from beacon_runner.metrics import LoopMetrics
from beacon_runner.ports.claims import ClaimStore
from beacon_runner.ports.queue import MessageQueue
from beacon_runner.worker.heartbeat import Heartbeat
from beacon_runner.worker.job_runner import JobRunner
from beacon_runner.worker.pending_reports import PendingReports
from beacon_runner.worker.run import JobRun

log = structlog.get_logger(__name__)

MIN_PAUSE_S, MAX_PAUSE_S = 0.1, 2.0


@dataclass(frozen=True, slots=True)
class Recorder:
    """Redis is updated after Postgres: a message that it keeps too long is stale when claimed."""

    pending: PendingReports
    store: ClaimStore
    queue: MessageQueue
    runner: JobRunner
    heartbeat: Heartbeat
    worker: str
    notify_outbox: Callable[[], None]
    clock: Clock
    metrics: LoopMetrics

    async def run(self) -> None:
        """One writer; ends when cancelled."""
        while True:
            runs = await self.pending.take()
            reports = [run.take_report() for run in runs]
            applied = await self._write(reports)
            self.metrics.result_batch_size.observe(len(reports))
            self._count_verdicts(reports, applied)
            await self._release(runs, reports, applied)
            self.pending.written(runs)

    async def _release(
        self, runs: Sequence[JobRun], reports: Sequence[StageReport], applied: frozenset[JobId]
    ) -> None:
        done: list[Message] = []
        returned: list[Message] = []
        lost: list[Message] = []
        for run, report in zip(runs, reports, strict=True):
            if run.released:
                continue
            if run.job.id not in applied:
                lost.append(run.message)
            elif isinstance(report.verdict, Returned):
                returned.append(run.message)
            elif report.verdict is not None:
                done.append(run.message)
        ended = [*done, *returned, *lost]
        for message in ended:
            self.runner.release(message.job)
        self.heartbeat.drop(ended)
        if lost:
            self.metrics.fence_conflicts.inc(len(lost))
            log.warning("fence_conflicts_found", count=len(lost), first=str(lost[0].job))
        changed = applied.difference(message.job for message in done)
        # A lost job is returned, too: its next claim shows whether it has ended.
        await self._update_queue(done=done, returned=[*returned, *lost], changed=list(changed))

    async def _update_queue(
        self, *, done: Sequence[Message], returned: Sequence[Message], changed: Sequence[JobId]
    ) -> None:
        try:
            if changed:
                await self.queue.notify_watchers(changed)
            if done:
                await self.queue.ack(done)  # notifies the watchers, too
            if returned:
                await self.queue.nack(returned, self.worker)
        except QueueUnavailableError as error:
            log.warning("queue_update_failed", messages=len(done) + len(returned), error=str(error))

    def _count_verdicts(self, reports: Sequence[StageReport], applied: frozenset[JobId]) -> None:
        verdicts = Counter(
            type(report.verdict)
            for report in reports
            if report.verdict is not None and report.claimed.id in applied
        )
        for verdict, count in verdicts.items():
            self.metrics.verdicts.labels(verdict.__name__).inc(count)
        if verdicts.keys() - {Finished, Returned}:
            self.notify_outbox()  # next stages, retries and dead letters wait in the outbox

    async def _write(self, reports: Sequence[StageReport]) -> frozenset[JobId]:
        """Retries until Postgres answers. If it refuses the reports, the bad one is found by halving."""
        pause_s = MIN_PAUSE_S
        while True:
            try:
                return await self.store.record(reports)
            except StoreUnavailableError as error:
                log.warning("record_retried", jobs=len(reports), error=str(error))
            except Exception:
                log.exception("record_failed", jobs=len(reports))
                return await self._write_separately(reports)
            await self.clock.sleep(pause_s)
            pause_s = min(pause_s * 2, MAX_PAUSE_S)

    async def _write_separately(self, reports: Sequence[StageReport]) -> frozenset[JobId]:
        if len(reports) > 1:
            half = len(reports) // 2
            return await self._write(reports[:half]) | await self._write(reports[half:])
        (report,) = reports
        if isinstance(report.verdict, Dead) and report.verdict.reason == NOT_RECORDABLE:
            return frozenset()  # it is delivered again, and deliveries are counted
        return await self._write([_unrecordable(report)])


def _unrecordable(report: StageReport) -> StageReport:
    """Ends the job with a failure that names the reason."""
    failure = unstorable("the report of this job cannot be stored")
    recorded = [one.state for one in report.claimed.recorded_executions]
    some_completed = ExecutionState.COMPLETED in recorded + [one.state for one in report.earlier]
    failed = tuple(
        one._replace(
            state=ExecutionState.FAILED,
            output=None,
            stored=None,
            files=(),
            failure=failure.model_copy(update={"item": one.execution.item}),
        )
        for one in report.executions
    )
    verdict = dead_verdict(report.claimed, NOT_RECORDABLE, failure, some_completed=some_completed)
    return report._replace(executions=failed, verdict=verdict, updates=())
