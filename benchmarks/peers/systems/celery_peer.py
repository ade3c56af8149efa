"""Celery on Redis: late acknowledgement, so that a lost worker loses no job; results in Redis too."""

import asyncio
import os
import sys
from typing import Any

from celery import Celery
from redis import Redis

from benchmarks.harness.pickup import arrived, measure
from benchmarks.harness.system import note_start, options, run, until_recorded
from benchmarks.peers.systems.redis_results import results_in

MODULE = "benchmarks.peers.systems.celery_peer"
RESULT_KEY = "celery-task-meta-*"

app = Celery("peers", broker=os.environ["REDIS_URL"], backend=os.environ["REDIS_URL"])
app.conf.update(
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=options().get("prefetch", 4),
)


def body(sent: float = 0.0) -> None:
    if sent:
        arrived(sent)
    else:
        note_start()


noop = app.task(name="noop")(body)


def command(pool: str, concurrency: int) -> list[str]:
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "ERROR"]
    return ["celery", "-A", MODULE, "worker", "--pool", pool, "--concurrency", str(concurrency), *quiet]


class CeleryPeer:
    """The worker is Celery's command, as users start it."""

    def __init__(self) -> None:
        self._redis: Any = Redis.from_url(os.environ["REDIS_URL"])

    def prepare(self) -> None:
        self._redis.ping()

    def fill(self, count: int) -> None:
        with app.producer_pool.acquire(block=True) as producer:
            for _ in range(count):
                noop.apply_async(producer=producer)

    async def drain(self, count: int) -> float:
        arguments = command(options()["pool"], options()["concurrency"])
        process = await asyncio.create_subprocess_exec(sys.executable, "-m", *arguments)
        try:
            return await until_recorded(count, lambda: results_in(self._redis, RESULT_KEY, count))
        finally:
            process.kill()
            await process.wait()

    async def pickup(self, count: int) -> list[float]:
        async def send(sent: float) -> None:
            await asyncio.to_thread(noop.apply_async, (sent,))

        return await measure(count, send, *command("prefork", 2))

    def close(self) -> None:
        app.close()


if __name__ == "__main__":
    run(CeleryPeer, lambda: None)
