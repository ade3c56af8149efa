"""After a write: lets go of what is over, tells Redis, and wakes the publisher for what comes next."""

from collections.abc import Callable, Iterable, Sequence
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
class Settlement:
    """Redis hears of it after Postgres has: what it misses is recognised as old on its next delivery."""

    queue: MessageQueue
    bench: JobRunner
    heartbeat: Heartbeat
    worker: str
    ring: Callable[[], None]
    metrics: LoopMetrics

    async def settle(
        self, runs: Sequence[JobRun], reports: Sequence[StageReport], applied: frozenset[JobId]
    ) -> None:
        done: list[Message] = []
        returned: list[Message] = []
        lost: list[Message] = []
        verdicts: list[Verdict | None] = []
        for run, report in zip(runs, reports, strict=True):
            is_applied = run.job.id in applied
            if is_applied:
                verdicts.append(report.verdict)
            if run.let_go:
                continue
            if not is_applied:
                lost.append(run.message)
            elif isinstance(report.verdict, Returned):
                returned.append(run.message)
            elif report.verdict is not None:
                done.append(run.message)
        self._count(verdicts, len(lost))
        over = [*done, *returned, *lost]
        for message in over:
            self.bench.let_go(message.job)
        self.heartbeat.drop(over)
        others = applied.difference([message.job for message in done]) if len(done) < len(applied) else ()
        await self._tell(done, returned, lost, list(others))

    async def _tell(
        self, done: list[Message], returned: list[Message], lost: list[Message], changed: list[JobId]
    ) -> None:
        try:
            if changed:
                await self.queue.notify_watchers(changed)
            if done:
                await self.queue.ack(done)  # which tells those who watch, too
            if returned:
                await self.queue.nack(returned, self.worker)
            if lost:
                # Not forgotten: a crash of Postgres may have made them nobody's, and the next claim tells.
                log.warning("jobs_taken_over", count=len(lost), first=str(lost[0].job))
                await self.queue.nack(lost, self.worker)
        except REDIS_ERRORS as error:
            log.warning("redis_not_told", messages=len(done) + len(returned) + len(lost), error=str(error))

    def _count(self, verdicts: Iterable[Verdict | None], lost: int) -> None:
        self.metrics.fences_lost.inc(lost)
        counts: dict[type[Verdict], int] = {}
        for verdict in verdicts:
            if verdict is not None:
                counts[type(verdict)] = counts.get(type(verdict), 0) + 1
        for kind, count in counts.items():
            self.metrics.verdicts.labels(kind.__name__).inc(count)
        if counts.keys() - {Finished, Returned}:
            self.ring()  # next stages, retries and dead letters wait in the outbox
