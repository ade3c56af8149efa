"""RQ: a queue in Redis; results are kept for 500 seconds."""

import asyncio
import os

import rq
from redis import Redis

from benchmarks.harness.pickup import arrived, measure
from benchmarks.harness.system import Progress, options, run

MODULE = "benchmarks.peers.systems.rq_peer"
progress = Progress()


def noop(sent: float = 0.0) -> None:
    if sent:
        arrived(sent)


class NotingWorker(rq.SimpleWorker):
    """Runs jobs in its own process, and records when the first one starts."""

    def perform_job(self, *arguments: object, **named: object) -> bool:
        progress.body()
        return bool(super().perform_job(*arguments, **named))


class ForkingWorker(rq.Worker):
    """RQ's default: each job in a process of its own."""

    def fork_work_horse(self, *arguments: object, **named: object) -> None:
        progress.body()
        super().fork_work_horse(*arguments, **named)


def connect() -> Redis:
    return Redis.from_url(os.environ["REDIS_URL"])


class RqPeer:
    def __init__(self) -> None:
        self._queue = rq.Queue(connection=connect())

    def prepare(self) -> None:
        self._queue.empty()

    def fill(self, count: int) -> None:
        for _ in range(count):
            self._queue.enqueue(f"{MODULE}.noop")

    def drain(self, count: int) -> float:
        kind = ForkingWorker if options().get("fork") else NotingWorker
        worker = kind([self._queue], connection=connect())
        worker.work(burst=True, logging_level="ERROR")
        progress.wanted = count
        progress.recorded(self._queue.finished_job_registry.get_job_count(cleanup=False))
        if not progress.complete.is_set():
            raise RuntimeError(f"{progress.done} of {count} done")
        return progress.seconds()

    async def pickup(self, count: int) -> list[float]:
        async def send(sent: float) -> None:
            await asyncio.to_thread(self._queue.enqueue, f"{MODULE}.noop", sent)

        return await measure(count, send, MODULE, "work")

    def close(self) -> None:
        self._queue.connection.close()


def work() -> None:
    rq.SimpleWorker(["default"], connection=connect()).work(logging_level="ERROR")


if __name__ == "__main__":
    run(RqPeer, work)
