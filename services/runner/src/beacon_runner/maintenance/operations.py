"""Does operations on many jobs, a batch at a time; several operations take turns."""

from collections.abc import Callable
from dataclasses import dataclass

import structlog

from beacon_lifecycle import RunResult
from beacon_runner.domain.errors import QueueUnavailableError
from beacon_runner.domain.jobs.operations import OperationStep
from beacon_runner.ports.operations import ChangedJobQueue, OperationSteps

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class OperationRunner:
    """A step is one transaction; what it leaves in Redis is dropped by claims and by the reconciler."""

    store: OperationSteps
    queue: ChangedJobQueue
    notify_outbox: Callable[[], None]
    kept_s: Callable[[], float]
    batch: int = 200

    async def run_once(self) -> RunResult:
        step = await self.store.step(self.batch)
        if step is None:
            await self.store.forget(self.kept_s())
            return RunResult(0)
        if step.queued:
            self.notify_outbox()
        await self._update_queue(step)
        return RunResult(step.changed, more=not step.waits)

    async def _update_queue(self, step: OperationStep) -> None:
        try:
            if step.ended:
                await self.queue.discard(step.ended)
            for message in step.ended:
                await self.queue.notify_watchers(message.job)
            if step.deleted:
                await self.queue.forget_dead(step.deleted)
        except QueueUnavailableError as error:
            log.info("message_discard_failed", error=str(error))
