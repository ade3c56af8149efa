"""Where a live job stands, as one place and one wait: in the runner's queue, or at the router."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from beacon_contracts.ids import encode_execution_id
from beacon_contracts.inference import InferenceState, InferenceView
from beacon_contracts.jobs import JobState
from beacon_contracts.wait_reason import ExecutionWait
from beacon_lifecycle import Clock
from beacon_runner.application.wait_estimator import WaitEstimator
from beacon_runner.domain.plan import Place, ended, places
from beacon_runner.domain.states import LIVE
from beacon_runner.ports.router import RouterPort
from beacon_runner.postgres.job_queries import JobRecord, Reader

ASKED = 4
PATIENCE_S = 2.0
WAITING = frozenset({InferenceState.QUEUED, InferenceState.BACKOFF})


@dataclass(frozen=True, slots=True)
class Standing:
    """`position` 1 is next; None when it does not wait for a turn. `at` is what it waits at."""

    position: int | None = None
    estimated_wait_s: float | None = None
    at: str | None = None
    waiting_for: str | None = None


NOWHERE = Standing()


@dataclass(frozen=True, slots=True)
class PositionService:
    outlook: WaitEstimator
    router: RouterPort
    reader: Reader
    clock: Clock

    async def of(self, record: JobRecord) -> Standing:
        now = self.clock.wall()
        if record.head.state is JobState.PROCESSING:
            return _at_router(await self.waits(record, ASKED))
        if record.waits_for_its_turn(now):
            return await self._in_queue(record)
        if record.next_attempt_at is not None and record.head.state in LIVE:
            return Standing(
                estimated_wait_s=round((record.next_attempt_at - now).total_seconds(), 2), at="retry"
            )
        return NOWHERE

    async def waits(self, record: JobRecord, most: int) -> list[ExecutionWait]:
        """What the router says of the first executions that have not ended; nothing when it is silent."""
        unfinished = (await self.unfinished(record))[:most]
        try:
            async with asyncio.timeout(PATIENCE_S):
                found = await asyncio.gather(*(self._find(record, place) for place in unfinished))
        except TimeoutError:
            return []
        return [wait for wait in found if wait is not None]

    async def unfinished(self, record: JobRecord) -> list[Place]:
        recorded = await self.reader.executions(record.head.id)
        over = {(one.stage, one.ordinal) for one in recorded if ended(one.newest.state)}
        return [
            place
            for place in places(record.spec)
            if place.stage == record.head.stage and (place.stage, place.ordinal) not in over
        ]

    async def _in_queue(self, record: JobRecord) -> Standing:
        self.outlook.begin()
        position = await self.outlook.position(record.message)
        if self.outlook.is_paused(record.head.job_class):
            return Standing(position, None, "queue")
        return Standing(position, self.outlook.wait_s(record.spec, position, record.head.stage), "queue")

    async def _find(self, record: JobRecord, place: Place) -> ExecutionWait | None:
        name = encode_execution_id(record.head.id, place.stage, place.ordinal)
        found = await self.router.find(name, place.region)
        return None if found is None or found.state.terminal else _wait(name, place, found)


def _at_router(waits: Sequence[ExecutionWait]) -> Standing:
    """It waits when all that was asked for waits; then the first of them counts."""
    waiting = [wait for wait in waits if wait.state in WAITING]
    if not waits or len(waiting) < len(waits):
        return Standing(estimated_wait_s=0.0 if waits else None, at="router" if waits else None)
    first = min(waiting, key=lambda wait: wait.position if wait.position is not None else 1 << 30)
    eta_s = None if first.eta is None else round(first.eta.p50_s, 2)
    return Standing(first.position, eta_s, "router", first.waiting_for or f"{first.model} in {first.region}")


def _wait(name: str, place: Place, found: InferenceView) -> ExecutionWait:
    return ExecutionWait(
        execution_id=name,
        model=place.model,
        region=place.region,
        state=found.state,
        position=found.position,
        eta=found.eta,
        waiting_for=found.waiting_for,
    )
