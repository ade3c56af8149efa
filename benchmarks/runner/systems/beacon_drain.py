"""Beacon's worker on a filled queue: everything is real except a router that answers at once."""

import asyncio
import os
from collections.abc import Sequence

from beacon_contracts.ids import JobId
from beacon_lifecycle import Service, tune_gc
from beacon_runner.domain.execution.stage_result import ClaimedJob, StageReport
from beacon_runner.domain.queue.messages import Message
from beacon_runner.postgres.jobs.claims import PostgresClaims
from beacon_runner.wiring.loops import RelayStore, build_relay, build_worker
from beacon_runner.worker.executor import Executor, RouterExecutor
from benchmarks.harness.system import Progress, options, run
from benchmarks.runner.systems.instant import InstantRouter
from benchmarks.runner.systems.shipped import Filler, new_users, open_database, open_transport, wide_config

CONNECTIONS = 4  # opened before the drain, as pgqueuer's are
NOTHING = "SELECT 1"
COMPLETED = "SELECT count(*) FROM jobs j JOIN executions e ON e.job_id = j.id WHERE j.state = 'completed'"


class CountingClaims:
    """The store, with a count of its recorded jobs."""

    def __init__(self, claims: PostgresClaims, progress: Progress) -> None:
        self._claims = claims
        self._progress = progress

    async def claim(self, messages: Sequence[Message], worker: str) -> Sequence[ClaimedJob]:
        return await self._claims.claim(messages, worker)

    async def record(self, reports: Sequence[StageReport]) -> frozenset[JobId]:
        applied = await self._claims.record(reports)
        ended = [report.claimed.id for report in reports if report.verdict is not None]
        self._progress.recorded(len(applied.intersection(ended)))
        return applied


class BeaconDrain:
    """Options: `slots`, `batch`, `users`, `outbox` (drain begins there)."""

    def __init__(self) -> None:
        self._options = {"slots": 3000, "batch": 500, "users": 1, **options()}
        self._config = wide_config(self._options["slots"], self._options["batch"])
        self._progress = Progress()

    async def prepare(self) -> None:
        self._database = open_database()
        await self._database.open()
        await asyncio.gather(*(self._database.fetchval(NOTHING) for _ in range(CONNECTIONS)))
        self._transport = open_transport(self._config)
        await self._transport.start()

    async def fill(self, count: int) -> None:
        filler = Filler(self._config, self._database, self._transport)
        await filler.submit(count, new_users(self._options["users"]))
        if not self._options.get("outbox"):
            await filler.publish()

    async def drain(self, count: int) -> float:
        self._progress.wanted = count
        claims = PostgresClaims(self._database)
        services = build_worker(self._transport, CountingClaims(claims, self._progress), self._executor())
        if self._options.get("outbox"):
            services += self._relay()
        for service in services:
            await service.start()
        await self._progress.complete.wait()
        for service in reversed(services):
            await service.stop()
        await self._check(count)
        return self._progress.seconds()

    async def close(self) -> None:
        await self._transport.stop()
        await self._database.close()

    def _executor(self) -> Executor:
        return RouterExecutor(InstantRouter(self._body), self._transport.live)

    def _body(self, _: str) -> None:
        self._progress.body()

    def _relay(self) -> list[Service]:
        return build_relay(self._transport, RelayStore.on(self._database))

    async def _check(self, count: int) -> None:
        completed = await self._database.fetchval(COMPLETED)
        if completed != count:
            raise RuntimeError(f"{completed} of {count} jobs are recorded as completed")


if __name__ == "__main__":
    os.environ.setdefault("BEACON_LOG_LEVEL", "warning")
    tune_gc()  # as the runner's process does
    run(BeaconDrain, lambda: None)
