"""After a write to Postgres: releases what has ended, updates Redis and wakes the publisher."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog

from beacon_contracts.ids import JobId
from beacon_redis import REDIS_ERRORS
from beacon_runner.domain.messages import Message
from beacon_runner.domain.stage_result import Finished, Returned, StageReport, Verdict
from beacon_runner.metrics import LoopMetrics
from beacon_runner.ports.queue import MessageQueue
from beacon_runner.worker.heartbeat import Heartbeat
from beacon_runner.worker.job_runner import JobRunner
from beacon_runner.worker.run import JobRun

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class PostCommit:
    """Redis is updated after Postgres: a message that it keeps too long is stale when claimed."""

    queue: MessageQueue
    runner: JobRunner
    heartbeat: Heartbeat
    worker: str
    notify_outbox: Callable[[], None]
    metrics: LoopMetrics

    async def __call__(
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
        verdicts = Counter(
            type(report.verdict) for report in reports if report.job in applied and report.verdict is not None
        )
        if verdicts.keys() - {Finished, Returned}:
            self.notify_outbox()  # next stages, retries and dead letters wait in the outbox
        self._count(verdicts, lost)
        await self._update_queue(applied, done, [*returned, *lost])

    async def _update_queue(
        self, applied: frozenset[JobId], done: Sequence[Message], returned: Sequence[Message]
    ) -> None:
        changed = applied.difference(message.job for message in done)
        try:
            if changed:
                await self.queue.notify_watchers(list(changed))
            if done:
                await self.queue.ack(done)  # notifies the watchers, too
            if returned:  # a lost job, too: its next claim shows whether it has ended
                await self.queue.nack(returned, self.worker)
        except REDIS_ERRORS as error:
            log.warning("queue_update_failed", messages=len(done) + len(returned), error=str(error))

    def _count(self, verdicts: Counter[type[Verdict]], lost: Sequence[Message]) -> None:
        for verdict, count in verdicts.items():
            self.metrics.verdicts.labels(verdict.__name__).inc(count)
        if lost:
            self.metrics.fence_conflicts.inc(len(lost))
            log.warning("fence_conflicts_found", count=len(lost), first=str(lost[0].job))
