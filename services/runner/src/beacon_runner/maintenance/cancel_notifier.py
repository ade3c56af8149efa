"""Cancels jobs at the routers: immediately in the process that cancelled, repeated by the relay.

A router that has not answered may still be running the job, so the cancel is repeated until it answers
or until `GIVE_UP_S` has passed. A paid price is kept only if a router reports that the job ran.
"""

import asyncio
from dataclasses import dataclass

import structlog

from beacon_contracts.ids import encode_execution_id, encode_job_id
from beacon_lifecycle import RunResult
from beacon_runner.ports.cancels import CancelledRun, CancelStore, RouterCancel
from beacon_runner.ports.router import CancelPort

log = structlog.get_logger(__name__)

GIVE_UP_S = 300.0  # less than the time for which routers keep results


@dataclass(frozen=True, slots=True)
class CancelNotifier:
    store: CancelStore
    router: CancelPort
    batch: int = 20

    async def run_once(self) -> RunResult:
        due = await self.store.take(self.batch)
        await asyncio.gather(*map(self.notify, due))
        return RunResult.limited(len(due), self.batch)

    async def notify(self, cancel: RouterCancel) -> None:
        """Idempotent: a repeated cancel gets the same answers."""
        answers = await asyncio.gather(
            *(
                self.router.cancel(
                    encode_execution_id(cancel.job, key.stage, key.ordinal),
                    key.region,
                    fence=cancel.fence,
                    remote=cancel.remotes.get(key.ordinal),
                )
                for key in cancel.executions
            )
        )
        silent = [reason for answer in answers for reason in answer.unanswered]
        if silent and cancel.age_s < GIVE_UP_S:
            log.info("cancel_retried", job=encode_job_id(cancel.job), silent=len(silent), first=silent[0])
            return
        # The cancelled run has the fence before the one of the cancel.
        found = [
            (key, answer.run(cancel.fence - 1))
            for key, answer in zip(cancel.executions, answers, strict=True)
        ]
        runs = [CancelledRun(key, run) for key, run in found if run is not None]
        await self.store.settle(cancel.job, runs)
