"""Dramatiq: a queue in Redis; results are stored by its own middleware."""

import asyncio
import os
import sys

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend
from redis import Redis

from benchmarks.harness.pickup import arrived, measure
from benchmarks.harness.system import note_start, options, run, until_recorded
from benchmarks.peers.systems.redis_results import results_in

MODULE = "benchmarks.peers.systems.dramatiq_peer"
RESULT_KEY = "[0-9a-f]" * 32


def body(sent: float = 0.0) -> str:
    if sent:
        arrived(sent)
    else:
        note_start()
    return ""


broker = RedisBroker(url=os.environ["REDIS_URL"])
broker.add_middleware(Results(backend=RedisBackend(url=os.environ["REDIS_URL"])))
dramatiq.set_broker(broker)
noop = dramatiq.actor(body, actor_name="noop", broker=broker, store_results=True)


class DramatiqPeer:
    """The worker is Dramatiq's command, as users start it."""

    def __init__(self) -> None:
        self._redis = Redis.from_url(os.environ["REDIS_URL"])

    def prepare(self) -> None:
        self._redis.ping()

    def fill(self, count: int) -> None:
        for _ in range(count):
            noop.send()

    async def drain(self, count: int) -> float:
        settings = options()
        arguments = ("--processes", str(settings["processes"]), "--threads", str(settings["threads"]))
        process = await asyncio.create_subprocess_exec(sys.executable, "-m", "dramatiq", MODULE, *arguments)
        try:
            return await until_recorded(count, lambda: results_in(self._redis, RESULT_KEY, count))
        finally:
            process.kill()
            await process.wait()

    async def pickup(self, count: int) -> list[float]:
        async def send(sent: float) -> None:
            await asyncio.to_thread(noop.send, sent)

        return await measure(count, send, "dramatiq", MODULE, "--processes", "1")

    def close(self) -> None:
        broker.close()


if __name__ == "__main__":
    run(DramatiqPeer, lambda: None)
