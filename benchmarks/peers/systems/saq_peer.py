"""SAQ: a queue in Redis; the result is written into the job."""

import asyncio
import os
from typing import Any

import saq
from saq.queue.redis import RedisQueue
from saq.worker import Worker

from benchmarks.harness.pickup import arrived, measure
from benchmarks.harness.system import Progress, options, run

progress = Progress()


async def noop(_: Any, *, sent: float = 0.0) -> None:
    if sent:
        arrived(sent)
    else:
        progress.body()


async def recorded(_: Any) -> None:
    progress.recorded()


def queue() -> RedisQueue:
    made = saq.Queue.from_url(os.environ["REDIS_URL"])
    if not isinstance(made, RedisQueue):
        raise TypeError("SAQ made another queue than one in Redis")
    return made


class SaqPeer:
    async def prepare(self) -> None:
        self._queue = queue()
        await self._queue.connect()

    async def fill(self, count: int) -> None:
        for _ in range(count):
            await self._queue.enqueue("noop")

    async def drain(self, count: int) -> float:
        progress.wanted = count
        worker = Worker(
            self._queue,
            [("noop", noop)],
            concurrency=options()["concurrency"],
            after_process=recorded,
        )
        working = asyncio.ensure_future(worker.start())
        await progress.complete.wait()
        await worker.stop()
        await working
        return progress.seconds()

    async def pickup(self, count: int) -> list[float]:
        async def send(sent: float) -> None:
            await self._queue.enqueue("noop", sent=sent)

        return await measure(count, send, "benchmarks.peers.systems.saq_peer", "work")

    async def close(self) -> None:
        await self._queue.disconnect()


async def work() -> None:
    await Worker(queue(), [("noop", noop)]).start()


if __name__ == "__main__":
    run(SaqPeer, work)
