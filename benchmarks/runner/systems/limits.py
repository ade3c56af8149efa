"""The bare resources: Postgres and Redis in a loop that does nothing else."""

import asyncio
import os
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
from redis.asyncio import Redis

from beacon_contracts.ids import new_uuid
from benchmarks.harness.system import run

BATCH = 100
SPEC = b'{"model": "llama3.2-1b", "region": "US", "input": {"prompt": "x"}}'
RESULT = b'{"text": "done"}'
_HERE = Path(__file__).parent


def statements() -> dict[str, str]:
    text = (_HERE / "sql" / "bare.sql").read_text(encoding="utf-8")
    _, *parts = re.split(r"^-- name: (\w+)$", text, flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


class Limits:
    """Each method returns operations per second."""

    def __init__(self) -> None:
        self._sql = statements()

    async def prepare(self) -> None:
        self._pool = await asyncpg.create_pool(
            os.environ["DATABASE_URL"], min_size=32, max_size=32, init=_json_as_bytes
        )
        self._redis = Redis.from_url(os.environ["REDIS_URL"])
        await self._pool.execute(self._sql["tables"])

    async def insert_one(self, count: int, connections: int) -> float:
        """One job per statement."""
        statement = self._sql["insert_one"]

        async def insert(connection: Any) -> None:
            await connection.execute(statement, new_uuid(), new_uuid(), SPEC)

        return await self._rate(count, connections, insert)

    async def insert_many(self, count: int, connections: int) -> float:
        """A hundred jobs per statement."""

        async def insert(connection: Any) -> None:
            await self._insert(connection, [new_uuid() for _ in range(BATCH)])

        return BATCH * await self._rate(count // BATCH, connections, insert)

    async def record_many(self, count: int, connections: int) -> float:
        """A hundred results per statement."""
        ids = [new_uuid() for _ in range(count)]
        batches = [ids[start : start + BATCH] for start in range(0, count, BATCH)]
        async with self._pool.acquire() as connection:
            for batch in batches:
                await self._insert(connection, batch)
        statement = self._sql["record_many"]

        async def record(connection: Any) -> None:
            await connection.execute(statement, batches.pop(), [RESULT] * BATCH)

        return BATCH * await self._rate(len(batches), connections, record)

    async def redis_queue(self, count: int) -> float:
        """A hundred messages per step: push, claim by a script, acknowledge."""
        claim = self._redis.register_script((_HERE / "lua" / "bare_claim.lua").read_text(encoding="utf-8"))
        messages = [[new_uuid().hex for _ in range(BATCH)] for _ in range(count // BATCH)]
        started = time.monotonic()
        for batch in messages:
            await self._redis.lpush("bare", *batch)
            taken = await claim(keys=["bare", "bare:leases"], args=[BATCH, 1])
            await self._redis.zrem("bare:leases", *taken)
        return count / (time.monotonic() - started)

    async def close(self) -> None:
        await self._pool.close()
        await self._redis.aclose()

    async def _insert(self, connection: Any, ids: Sequence[UUID]) -> None:
        await connection.execute(self._sql["insert_many"], ids, ids, [SPEC] * len(ids))

    async def _rate(self, count: int, connections: int, step: Callable[[Any], Awaitable[None]]) -> float:
        left = iter(range(count))

        async def work() -> None:
            async with self._pool.acquire() as connection:
                for _ in left:
                    await step(connection)

        started = time.monotonic()
        await asyncio.gather(*(work() for _ in range(connections)))
        return count / (time.monotonic() - started)


async def _json_as_bytes(connection: Any) -> None:
    await connection.set_type_codec(
        "json", schema="pg_catalog", encoder=bytes, decoder=bytes, format="binary"
    )


if __name__ == "__main__":
    run(Limits, lambda: None)
