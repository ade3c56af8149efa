"""One worker with few slots, one user with a thousand jobs, twenty users with one each."""

import asyncio
import time
from collections.abc import Sequence

from beacon_config.queues import LaneStrategy
from beacon_contracts.ids import UserId
from beacon_contracts.inference import InferenceRequest, InferenceView
from beacon_contracts.tiers import JobClass
from beacon_runner.ports.router import OnState
from beacon_runner.postgres.jobs.claims import PostgresClaims
from beacon_runner.wiring.loops import build_worker
from beacon_runner.worker.executor import RouterExecutor
from benchmarks.harness.system import options, serve
from benchmarks.runner.systems.instant import InstantRouter
from benchmarks.runner.systems.shipped import (
    Filler,
    new_users,
    open_database,
    open_transport,
    shipped_config,
)

BULK, NEWCOMERS = "bulk", "newcomer"
STARTED_FIRST = 50  # jobs of the bulk before other users submit


class SlowRouter(InstantRouter):
    """A slow router that records when each job started."""

    def __init__(self, service_s: float) -> None:
        super().__init__(self._start)
        self.starts: list[tuple[str, float]] = []
        self.started = asyncio.Condition()
        self._service_s = service_s

    async def infer(
        self,
        request: InferenceRequest,
        *,
        again: bool = False,  # noqa: ARG002
        on_state: OnState = lambda _: None,  # noqa: ARG002
    ) -> InferenceView:
        view = await super().infer(request)
        async with self.started:
            self.started.notify_all()
        await asyncio.sleep(self._service_s)
        return view

    async def until_started(self, count: int) -> None:
        async with self.started:
            await self.started.wait_for(lambda: len(self.starts) >= count)

    def _start(self, prompt: str) -> None:
        self.starts.append((prompt, time.monotonic()))


class Fairness:
    """Options: `strategy`, `slots`, `service_s`."""

    def __init__(self) -> None:
        chosen = options()
        config = shipped_config({"lanes": {"strategy": LaneStrategy(chosen["strategy"])}})
        pool = config.pools["high"].model_copy(update={"slots": chosen["slots"], "classes": list(JobClass)})
        self._config = config.model_copy(update={"pools": {"high": pool}})
        self._router = SlowRouter(chosen["service_s"])

    async def prepare(self) -> None:
        self._database = open_database()
        await self._database.open()
        self._transport = open_transport(self._config)
        await self._transport.start()
        self._filler = Filler(self._config, self._database, self._transport)
        claims = PostgresClaims(self._database)
        executor = RouterExecutor(self._router, self._transport.live)
        self._services = build_worker(self._transport, claims, executor)
        for service in self._services:
            await service.start()

    async def alone(self, newcomers: int) -> dict[str, list[float]]:
        """The waits in an empty system."""
        return await self._newcomers(new_users(newcomers))

    async def crowded(self, bulk: int, newcomers: int) -> dict[str, list[float]]:
        """The waits of users who submit while a user's bulk is served."""
        before = len(self._router.starts)
        await self._filler.submit_batch(bulk, new_users(1)[0], BULK)
        await self._filler.publish()
        await self._router.until_started(before + STARTED_FIRST)
        waits = await self._newcomers(new_users(newcomers))
        await self._router.until_started(before + bulk + newcomers)
        return waits

    async def close(self) -> None:
        for service in reversed(self._services):
            await service.stop()
        await self._transport.stop()
        await self._database.close()

    async def _newcomers(self, users: Sequence[UserId]) -> dict[str, list[float]]:
        """For each: how many other jobs were started before its own, and the seconds until then."""
        starts, before, sent = self._router.starts, len(self._router.starts), time.monotonic()
        names = [f"{NEWCOMERS} {number} {before}" for number in range(len(users))]
        await self._filler.submit_each(dict(zip(users, names, strict=True)))
        await self._filler.publish()
        count = len(starts)
        while not set(names) <= {prompt for prompt, _ in starts[before:]}:
            count += 1
            await self._router.until_started(count)
        places = {prompt: place for place, (prompt, _) in enumerate(starts[before:])}
        return {
            "jobs": [float(places[name]) for name in names],
            "seconds": [starts[before + places[name]][1] - sent for name in names],
        }


if __name__ == "__main__":
    serve(Fairness())
