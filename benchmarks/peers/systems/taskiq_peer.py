"""taskiq on a Redis stream, which keeps what was not acknowledged; results in Redis too."""

import asyncio
import os
from contextlib import suppress
from typing import Any

from taskiq import TaskiqMiddleware
from taskiq.api import run_receiver_task
from taskiq_redis import RedisAsyncResultBackend, RedisStreamBroker

from benchmarks.harness.pickup import arrived, measure
from benchmarks.harness.system import Progress, options, run

progress = Progress()


class Noting(TaskiqMiddleware):
    def post_save(self, *_: Any) -> None:
        progress.recorded()


async def noop(sent: float = 0.0) -> None:
    if sent:
        arrived(sent)
    else:
        progress.body()


def application() -> tuple[RedisStreamBroker, Any]:
    results = RedisAsyncResultBackend(os.environ["REDIS_URL"], result_ex_time=3600)
    broker = RedisStreamBroker(os.environ["REDIS_URL"], consumer_id="0").with_result_backend(results)
    return broker, broker.register_task(noop, "noop")


class TaskiqPeer:
    def __init__(self) -> None:
        self._broker, self._noop = application()
        self._broker.add_middlewares(Noting())

    async def prepare(self) -> None:
        await self._broker.startup()

    async def fill(self, count: int) -> None:
        for _ in range(count):
            await self._noop.kiq()

    async def drain(self, count: int) -> float:
        progress.wanted = count
        worker = asyncio.ensure_future(
            run_receiver_task(
                self._broker, max_async_tasks=options()["tasks"], max_prefetch=options()["prefetch"]
            )
        )
        await progress.complete.wait()
        worker.cancel()
        with suppress(asyncio.CancelledError):
            await worker
        return progress.seconds()

    async def pickup(self, count: int) -> list[float]:
        async def send(sent: float) -> None:
            await self._noop.kiq(sent)

        return await measure(count, send, "benchmarks.peers.systems.taskiq_peer", "work")

    async def close(self) -> None:
        await self._broker.shutdown()


async def work() -> None:
    broker, _ = application()
    await broker.startup()
    await run_receiver_task(broker)


if __name__ == "__main__":
    run(TaskiqPeer, work)
