"""chancy: a queue in Postgres; a finished job stays as a row with its state."""

import asyncio
import os

import chancy
from chancy.worker import Worker

from benchmarks.harness.pickup import arrived, measure
from benchmarks.harness.system import note_start, options, run, until_recorded

CHUNK = 1_000
MODULE = "benchmarks.peers.systems.chancy_peer"
SUCCEEDED = "SELECT count(*) FROM chancy_jobs WHERE state = 'succeeded'"


async def noop(*, sent: float = 0.0) -> None:
    if sent:
        arrived(sent)
    else:
        note_start()


def job(sent: float = 0.0) -> chancy.Job:
    return chancy.Job(func=f"{MODULE}.noop", kwargs={"sent": sent}, queue="bench")


def application() -> chancy.Chancy:
    return chancy.Chancy(os.environ["DATABASE_URL"], max_connection_pool_size=10)


class ChancyPeer:
    async def prepare(self) -> None:
        self._app = application()
        await self._app.migrate()
        await self._app.declare(
            chancy.Queue(
                "bench",
                concurrency=options().get("concurrency", 100),
                executor=chancy.Chancy.Executor.Async,
                eager_polling=True,
                polling_interval=1,
            )
        )

    async def fill(self, count: int) -> None:
        for start in range(0, count, CHUNK):
            async for _ in self._app.push_many([job() for _ in range(min(CHUNK, count - start))]):
                pass

    async def drain(self, count: int) -> float:
        async with Worker(self._app):
            return await until_recorded(count, self._succeeded)

    async def pickup(self, count: int) -> list[float]:
        async def send(sent: float) -> None:
            await self._app.push(job(sent))

        return await measure(count, send, MODULE, "work")

    async def close(self) -> None:
        await self._app.__aexit__(None, None, None)

    async def _succeeded(self) -> int:
        await asyncio.sleep(0.05)
        async with self._app.pool.connection() as connection:
            found = await (await connection.execute(SUCCEEDED)).fetchone()
        return int(found[0]) if found else 0


async def work() -> None:
    async with application() as app, Worker(app) as worker:
        await worker.wait_for_shutdown()


if __name__ == "__main__":
    run(ChancyPeer, work)
