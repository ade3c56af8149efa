"""pgqueuer: a queue in Postgres, results in its log table."""

import asyncio
import os
import sys
from datetime import timedelta

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries
from pgqueuer.types import QueueExecutionMode

from benchmarks.harness.pickup import arrived, measure, recover
from benchmarks.harness.system import Progress, options, run

CHUNK = 1_000


class PgQueuerPeer:
    def __init__(self) -> None:
        self._progress = Progress()

    async def prepare(self) -> None:
        self._pool = await asyncpg.create_pool(os.environ["DATABASE_URL"], min_size=4, max_size=10)
        self._queries = Queries(AsyncpgPoolDriver(self._pool))
        await self._queries.install()

    async def fill(self, count: int) -> None:
        for start in range(0, count, CHUNK):
            size = min(CHUNK, count - start)
            await self._queries.enqueue(["noop"] * size, [None] * size, [0] * size)

    async def drain(self, count: int) -> float:
        worker = PgQueuer.from_asyncpg_pool(self._pool)
        worker.entrypoint("noop")(self._noop)
        await worker.qm.run(
            batch_size=options()["batch"], mode=QueueExecutionMode.drain, dequeue_timeout=timedelta(seconds=1)
        )
        self._progress.wanted = count
        self._progress.recorded(await self._successes())
        return self._progress.seconds()

    async def pickup(self, count: int) -> list[float]:
        async def send(sent: float) -> None:
            await self._queries.enqueue("noop", repr(sent).encode())

        return await measure(count, send, "benchmarks.peers.systems.pgqueuer_peer", "work")

    async def recover(self, seed: int) -> float:
        async def send(sent: float) -> None:
            await self._queries.enqueue("noop", repr(sent).encode())

        return await recover(send, "benchmarks.peers.systems.pgqueuer_peer", "work", "hang", seed=seed)

    async def close(self) -> None:
        await self._pool.close()

    async def _noop(self, _: Job) -> None:
        self._progress.body()

    async def _successes(self) -> int:
        return int(await self._pool.fetchval("SELECT count(*) FROM pgqueuer_log WHERE status = 'successful'"))


async def _work() -> None:
    worker = PgQueuer(AsyncpgDriver(await asyncpg.connect(os.environ["DATABASE_URL"])))

    async def body(job: Job) -> None:
        arrived(float(job.payload or b""))
        if "hang" in sys.argv:
            await asyncio.Event().wait()

    worker.entrypoint("noop")(body)
    await worker.run()


if __name__ == "__main__":
    run(PgQueuerPeer, _work)
