"""Cancels jobs at the routers: immediately in the process that cancelled, repeated by the relay.

A router that has not answered may still be running the job, so the cancel is repeated until it answers
or until `GIVE_UP_S` has passed. A paid price is kept only if a router reports that the job ran.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from beacon_contracts.ids import JobId, encode_execution_id, encode_job_id
from beacon_lifecycle import RunResult
from beacon_runner.domain.execution.plan import ExecutionKey
from beacon_runner.ports.cancels import CancelledRun, CancelStore, RouterCancel
from beacon_runner.ports.router import CancelPort, CancelResult

log = structlog.get_logger(__name__)

GIVE_UP_S = 300.0  # less than the time for which routers keep results


@dataclass(frozen=True, slots=True)
class CancelNotifier:
    store: CancelStore
    router: CancelPort
    batch: int = 20

    async def run_once(self) -> RunResult:
        due = await self.store.take(self.batch)
        await self._cancel(due)
        return RunResult.limited(len(due), self.batch)

    async def notify(self, cancel: RouterCancel) -> None:
        """Idempotent: a repeated cancel gets the same answers."""
        await self._cancel([cancel])

    async def _cancel(self, cancels: Sequence[RouterCancel]) -> None:
        """What waits is cancelled first: the slot of a run that ends would start it.

        Recent starts are not recorded yet: of the others, those that were sent first are cancelled last.
        """
        places = [(cancel, key) for cancel in cancels for key in cancel.executions]
        places.sort(key=lambda place: (place[0].job, place[1].ordinal), reverse=True)
        answers: dict[tuple[JobId, ExecutionKey], CancelResult] = {}
        for started in (False, True):
            chosen = [place for place in places if (place[1].ordinal in place[0].started) is started]
            found = await asyncio.gather(*(self._ask(*place) for place in chosen))
            answers |= {
                (cancel.job, key): answer for (cancel, key), answer in zip(chosen, found, strict=True)
            }
        for cancel in cancels:
            await self._settle(cancel, [(key, answers[cancel.job, key]) for key in cancel.executions])

    async def _ask(self, cancel: RouterCancel, key: ExecutionKey) -> CancelResult:
        return await self.router.cancel(
            encode_execution_id(cancel.job, key.stage, key.ordinal),
            key.region,
            fence=cancel.fence,
            remote=cancel.remotes.get(key.ordinal),
        )

    async def _settle(
        self, cancel: RouterCancel, answers: Sequence[tuple[ExecutionKey, CancelResult]]
    ) -> None:
        silent = [reason for _, answer in answers for reason in answer.unanswered]
        if silent and cancel.age_s < GIVE_UP_S:
            log.info("cancel_retried", job=encode_job_id(cancel.job), silent=len(silent), first=silent[0])
            return
        # The cancelled run has the fence before the one of the cancel.
        found = [(key, answer.run(cancel.fence - 1)) for key, answer in answers]
        runs = [CancelledRun(key, run) for key, run in found if run is not None]
        await self.store.settle(cancel.job, cancel.fence, runs)
