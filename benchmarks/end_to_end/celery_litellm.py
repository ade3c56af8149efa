"""Celery on Redis whose tasks call LiteLLM's proxy; late acknowledgement, results in Redis."""

import asyncio
import os
import sys
import time
from typing import Any

import requests
from celery import Celery
from redis import Redis

from benchmarks.harness.system import options, run, until

MODULE = "benchmarks.end_to_end.celery_litellm"
THREADS, LOOK_EVERY_S = 32, 0.02

app = Celery("end_to_end", broker=os.environ["REDIS_URL"], backend=os.environ["REDIS_URL"])
app.conf.update(task_acks_late=True, task_reject_on_worker_lost=True)
session = requests.Session()
session.mount("http://", requests.adapters.HTTPAdapter(pool_maxsize=THREADS))


def generate(prompt: str) -> Any:
    answer = session.post(
        f"{options()['proxy']}/v1/chat/completions",
        json={"model": "m", "messages": [{"role": "user", "content": prompt}]},
        headers={"authorization": f"Bearer {options()['token']}"},
        timeout=60,
    )
    answer.raise_for_status()
    return answer.json()["choices"][0]["message"]["content"]


task = app.task(name="generate")(generate)


class CeleryWithLiteLlm:
    """The worker is Celery's command, as users start it."""

    def __init__(self) -> None:
        self._redis: Any = Redis.from_url(os.environ["REDIS_URL"])

    async def prepare(self) -> None:
        quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "ERROR"]
        pool = ["--pool", "threads", "--concurrency", str(THREADS)]
        self._worker = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "celery", "-A", MODULE, "worker", *pool, *quiet
        )
        await self.run_jobs(1)

    async def run_jobs(self, count: int) -> float:
        started = time.monotonic()
        if found := self._results():
            self._redis.delete(*found)
        with app.producer_pool.acquire(block=True) as producer:
            for _ in range(count):
                task.apply_async(("Why is the sky blue?",), producer=producer)

        async def complete() -> bool:
            return len(self._results()) >= count

        await until(complete, LOOK_EVERY_S)
        return time.monotonic() - started

    def _results(self) -> list[bytes]:
        return list(self._redis.scan_iter("celery-task-meta-*", count=10_000))


if __name__ == "__main__":
    run(CeleryWithLiteLlm, lambda: None)
