"""arq: a queue in Redis; results are kept for an hour."""

import os
from typing import Any

from arq.connections import ArqRedis, RedisSettings, create_pool
from arq.worker import Worker, func

from benchmarks.harness.pickup import arrived, measure
from benchmarks.harness.system import Progress, options, run

progress = Progress()


async def noop(_: Any, sent: float = 0.0) -> None:
    if sent:
        arrived(sent)
    else:
        progress.body()


async def recorded(_: Any) -> None:
    progress.recorded()


def settings() -> RedisSettings:
    return RedisSettings.from_dsn(os.environ["REDIS_URL"])


class ArqPeer:
    async def prepare(self) -> None:
        self._redis: ArqRedis = await create_pool(settings())

    async def fill(self, count: int) -> None:
        for _ in range(count):
            await self._redis.enqueue_job("noop")

    async def drain(self, count: int) -> float:
        progress.wanted = count
        worker = Worker(
            [func(noop, name="noop")],
            redis_settings=settings(),
            max_jobs=options()["max_jobs"],
            after_job_end=recorded,
            burst=True,
            handle_signals=False,
        )
        await worker.async_run()
        await worker.close()
        if not progress.complete.is_set():
            raise RuntimeError(f"{progress.done} of {count} done")
        return progress.seconds()

    async def pickup(self, count: int) -> list[float]:
        async def send(sent: float) -> None:
            await self._redis.enqueue_job("noop", sent)

        return await measure(count, send, "benchmarks.peers.systems.arq_peer", "work")

    async def close(self) -> None:
        await self._redis.aclose()


async def work() -> None:
    await Worker([func(noop, name="noop")], redis_settings=settings()).async_run()


if __name__ == "__main__":
    run(ArqPeer, work)
