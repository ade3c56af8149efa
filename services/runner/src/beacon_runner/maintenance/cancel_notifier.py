"""Tells the routers of cancelled jobs: at once from the process that cancelled, later from the relay.

A router that has told us nothing may still be running the job, so it is told again until it answers or until
nobody waits for it any more. What was paid is kept only when a router says that the job ran.
"""

import asyncio
from dataclasses import dataclass
from typing import Protocol

import structlog

from beacon_contracts.ids import encode_execution_id, encode_job_id
from beacon_lifecycle import RunResult
from beacon_runner.ports.cancels import CancelStore, RouterCancel
from beacon_runner.ports.router import CancelResult

log = structlog.get_logger(__name__)

GIVE_UP_S = 300.0  # well before routers forget what has ended


class CancelDesk(Protocol):
    async def cancel(
        self, request_id: str, region: str | None = None, *, fence: int | None = None
    ) -> CancelResult: ...


@dataclass(frozen=True, slots=True)
class CancelNotifier:
    store: CancelStore
    router: CancelDesk
    batch: int = 20

    async def run_once(self) -> RunResult:
        due = await self.store.take(self.batch)
        await asyncio.gather(*map(self.notify, due))
        return RunResult.limited(len(due), self.batch)

    async def notify(self, cancel: RouterCancel) -> None:
        """Idempotent: a second time gives the same answers."""
        answers = await asyncio.gather(
            *(
                self.router.cancel(
                    encode_execution_id(cancel.job, place.stage, place.ordinal),
                    place.region,
                    fence=cancel.fence,
                )
                for place in cancel.places
            )
        )
        silent = [reason for answer in answers for reason in answer.unanswered]
        if silent and cancel.age_s < GIVE_UP_S:
            log.info("cancel_is_repeated", job=encode_job_id(cancel.job), silent=len(silent), first=silent[0])
            return
        # The lease that the cancel broke is the one before its own.
        ran = any(answer.ran(cancel.fence - 1) for answer in answers)
        await self.store.settle(cancel.job, ran=ran)
