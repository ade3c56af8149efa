"""Procrastinate: a queue in Postgres; a finished job stays as a row with its status."""

import logging
import os

import procrastinate

from benchmarks.harness.pickup import arrived, measure
from benchmarks.harness.system import Progress, options, run

CHUNK = 1_000
logging.getLogger("procrastinate").setLevel(logging.ERROR)
progress = Progress()


async def noop(sent: float = 0.0) -> None:
    if sent:
        arrived(sent)
    else:
        progress.body()


def application() -> tuple[procrastinate.App, procrastinate.tasks.Task]:
    connector = procrastinate.PsycopgConnector(conninfo=os.environ["DATABASE_URL"], min_size=4, max_size=20)
    app = procrastinate.App(connector=connector)
    return app, app.task(name="noop")(noop)


class ProcrastinatePeer:
    def __init__(self) -> None:
        self._app, self._noop = application()

    async def prepare(self) -> None:
        await self._app.open_async()
        await self._app.schema_manager.apply_schema_async()

    async def fill(self, count: int) -> None:
        for start in range(0, count, CHUNK):
            await self._noop.batch_defer_async(*({} for _ in range(min(CHUNK, count - start))))

    async def drain(self, count: int) -> float:
        await self._app.run_worker_async(
            wait=False, concurrency=options()["concurrency"], listen_notify=False
        )
        done = len(list(await self._app.job_manager.list_jobs_async(status="succeeded")))
        progress.wanted = count
        progress.recorded(done)
        if not progress.complete.is_set():
            raise RuntimeError(f"{done} of {count} succeeded")
        return progress.seconds()

    async def pickup(self, count: int) -> list[float]:
        async def send(sent: float) -> None:
            await self._noop.defer_async(sent=sent)

        return await measure(count, send, "benchmarks.peers.systems.procrastinate_peer", "work")

    async def close(self) -> None:
        await self._app.close_async()


async def work() -> None:
    app, _ = application()
    async with app.open_async():
        await app.run_worker_async()


if __name__ == "__main__":
    run(ProcrastinatePeer, work)
