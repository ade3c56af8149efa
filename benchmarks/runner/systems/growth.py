"""The cost of claims and memory by the depth of the queue, which is kept constant."""

import time
from typing import Any

from beacon_runner.domain.queue.messages import Message
from beacon_runner.postgres.jobs.claims import PostgresClaims
from benchmarks.harness.system import run
from benchmarks.runner.systems.shipped import (
    Filler,
    new_users,
    open_database,
    open_transport,
    shipped_config,
)

USERS = 100
CLAIM = 50
WORKER = "bench"
PROMPT = "a prompt of forty characters in one image"
SIZES = (
    "SELECT pg_total_relation_size('jobs') AS jobs, pg_total_relation_size('outbox') AS outbox, "
    "(SELECT avg(octet_length(spec ->> 'input'))::float FROM (SELECT spec FROM jobs LIMIT 1000) s) AS input"
)


class Growth:
    def __init__(self) -> None:
        self._config = shipped_config()
        self._users = new_users(USERS)

    async def prepare(self) -> None:
        self._database = open_database()
        await self._database.open()
        self._transport = open_transport(self._config)
        self._filler = Filler(self._config, self._database, self._transport)
        self._claims = PostgresClaims(self._database)
        self._empty_bytes = await self._redis_bytes()

    async def fill(self, count: int) -> None:
        await self._filler.submit(count, self._users, PROMPT)
        await self._filler.publish()

    async def claim(self, rounds: int) -> dict[str, float]:
        """The seconds of one claim in Redis and in Postgres; the depth is restored."""
        taken: list[Message] = []
        redis_s = postgres_s = 0.0
        for _ in range(rounds):
            began = time.monotonic()
            messages = await self._transport.queue.claim(
                list(self._config.pools["low"].classes), CLAIM, WORKER
            )
            fetched = time.monotonic()
            claimed = await self._claims.claim(messages, WORKER)
            postgres_s += time.monotonic() - fetched
            redis_s += fetched - began
            taken += messages
            if len(claimed) != CLAIM:
                raise RuntimeError(f"claimed {len(claimed)} instead of {CLAIM}")
        await self._transport.queue.ack(taken)
        await self.fill(len(taken))
        return {"redis": redis_s / rounds, "postgres": postgres_s / rounds}

    async def memory(self, count: int) -> dict[str, Any]:
        """Bytes per waiting job, without the user's input."""
        await self._database.execute("VACUUM outbox")
        sizes = await self._database.fetchrow(SIZES)
        if sizes is None:
            raise RuntimeError("no sizes")
        used = await self._redis_bytes() - self._empty_bytes
        postgres = (sizes["jobs"] + sizes["outbox"]) / count - sizes["input"]
        return {"redis": used / count, "postgres": postgres, "input": sizes["input"]}

    async def close(self) -> None:
        await self._transport.redis.aclose()
        await self._database.close()

    async def _redis_bytes(self) -> int:
        info = await self._transport.redis.info("memory")
        return int(info["used_memory"])


if __name__ == "__main__":
    run(Growth, lambda: None)
