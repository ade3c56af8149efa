"""pgqueuer with LiteLLM's Router class in its worker; results in a table of their own."""

import importlib
import json
import os
import time
from datetime import timedelta
from typing import Any

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgPoolDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries
from pgqueuer.types import QueueExecutionMode

from benchmarks.harness.system import options, run

BATCH = 100


class PgQueuerWithLiteLlm:
    async def prepare(self) -> None:
        self._pool = await asyncpg.create_pool(os.environ["DATABASE_URL"], min_size=4, max_size=10)
        self._queries = Queries(AsyncpgPoolDriver(self._pool))
        await self._queries.install()
        await self._pool.execute("CREATE TABLE results (job bigint PRIMARY KEY, output json NOT NULL)")
        litellm: Any = importlib.import_module("litellm")  # installed only in its own environment
        litellm.suppress_debug_info = True
        deployment = {"model": "openai/m", "api_base": f"{options()['backend']}/v1", "api_key": "none"}
        model: Any = {"model_name": "m", "litellm_params": deployment}
        self._router = litellm.Router(model_list=[model])

    async def run_jobs(self, count: int) -> float:
        started = time.monotonic()
        payload = json.dumps({"prompt": "Why is the sky blue?"}).encode()
        for start in range(0, count, BATCH):
            size = min(BATCH, count - start)
            await self._queries.enqueue(["generate"] * size, [payload] * size, [0] * size)
        worker = PgQueuer.from_asyncpg_pool(self._pool)
        worker.entrypoint("generate")(self._generate)
        await worker.qm.run(
            batch_size=64, mode=QueueExecutionMode.drain, dequeue_timeout=timedelta(seconds=1)
        )
        recorded = await self._pool.fetchval("SELECT count(*) FROM results")
        if recorded < count:
            raise RuntimeError(f"{count - recorded} jobs have no result")
        await self._pool.execute("TRUNCATE results")
        return time.monotonic() - started

    async def _generate(self, job: Job) -> None:
        prompt = json.loads(job.payload or b"{}")["prompt"]
        answer: Any = await self._router.acompletion(
            model="m", messages=[{"role": "user", "content": prompt}]
        )
        output = json.dumps(answer.choices[0].message.content)
        await self._pool.execute("INSERT INTO results VALUES ($1, $2)", job.id, output)


if __name__ == "__main__":
    run(PgQueuerWithLiteLlm, lambda: None)
