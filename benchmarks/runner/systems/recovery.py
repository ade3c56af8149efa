"""Recovery: Redis emptied with many live jobs, and a worker killed during a job."""

import time

from beacon_runner.postgres.database import Database
from beacon_runner.wiring.loops import Transport
from benchmarks.harness.pickup import recover
from benchmarks.harness.system import run, until
from benchmarks.runner.systems.children import start
from benchmarks.runner.systems.shipped import (
    Filler,
    new_users,
    open_database,
    open_transport,
    shipped_config,
)

PROCESS = "benchmarks.runner.systems.beacon_process"
LIVE = "jobs:live"
ACCOUNT = (
    "SELECT count(*) FILTER (WHERE state = 'completed') AS completed, sum(deliveries) AS claims, "
    "(SELECT count(*) FROM executions) AS executions FROM jobs"
)


class Recovery:
    """With the shipped settings; relay and workers are separate processes."""

    _database: Database
    _transport: Transport

    async def prepare(self) -> None:
        self._database = open_database()
        await self._database.open()
        config = shipped_config()
        self._transport = open_transport(config)
        await self._transport.start()
        self._filler = Filler(config, self._database, self._transport)
        await start(PROCESS, "relay", "shipped")

    async def fill(self, count: int) -> None:
        await self._filler.submit(count, new_users(100))
        await self._until_live(count)

    async def flushed(self, count: int) -> float:
        """Empty Redis; the seconds until every live job is restored."""
        emptied = time.monotonic()
        await self._transport.redis.flushdb()
        await self._until_live(count)
        return time.monotonic() - emptied

    async def account(self, count: int) -> dict[str, int]:
        """Let a worker run all jobs: none may be lost, claimed twice or recorded twice."""
        await start(PROCESS, "worker", "wide")
        await until(lambda: self._completed(count), 0.2)
        row = await self._database.fetchrow(ACCOUNT)
        return {} if row is None else {name: int(value) for name, value in row.items()}

    async def recover(self, seed: int) -> float:
        async def send(sent: float) -> None:
            await self._filler.submit(1, new_users(1), repr(sent))
            self._transport.outbox_notifier.notify()

        return await recover(send, PROCESS, "worker", "shipped", "hang", seed=seed)

    async def close(self) -> None:
        await self._transport.stop()
        await self._database.close()

    async def _until_live(self, count: int) -> None:
        self._transport.outbox_notifier.notify()
        await until(lambda: self._live(count), 0.01)

    async def _live(self, count: int) -> bool:
        return bool(await self._transport.redis.hlen(LIVE) >= count)

    async def _completed(self, count: int) -> bool:
        row = await self._database.fetchrow(ACCOUNT)
        return row is not None and row["completed"] >= count


if __name__ == "__main__":
    run(Recovery, lambda: None)
