"""Postgres and Valkey, shared by all systems: durable settings, a fresh database for each run."""

import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import asyncpg
from redis.asyncio import Redis

from beacon_devstack.home import Home
from beacon_devstack.secret_store import Secrets
from beacon_devstack.servers.postgres import DURABLE, EmbeddedPostgres
from beacon_devstack.servers.redis import DURABLE as DURABLE_REDIS
from beacon_devstack.servers.redis import EmbeddedRedis
from beacon_runner.migrations import migrate

PLACE = Path(".beacon/benchmarks")  # on a real disk, because commits are measured
TEMPLATE = "beacon_migrated"
_SQL = Path(__file__).with_name("sql")


@dataclass(frozen=True, slots=True)
class RunTarget:
    """The databases and the log of one run."""

    database_url: str
    redis_url: str
    log: Path


class SharedServers:
    """Creates fresh databases on dedicated servers, and prepares them before each run."""

    def __init__(self, home: Home, postgres: EmbeddedPostgres, redis: EmbeddedRedis) -> None:
        self.postgres = postgres
        self.redis = redis
        self._home = home
        self._numbers = count(1)

    @property
    def pids(self) -> dict[str, int]:
        return {"postgres": self.postgres.child.pid, "redis": self.redis.child.pid}

    async def prepare(self) -> None:
        """Migrate one database; Beacon's runs use copies of it."""
        await self._administer("create_database", TEMPLATE, "template0")
        await migrate.upgrade(self.postgres.url_of(TEMPLATE))

    @asynccontextmanager
    async def target(
        self, name: str, *, migrated: bool = False, redis_database: int = 0
    ) -> AsyncIterator[RunTarget]:
        """An empty database and an empty Redis database; `migrated`: with Beacon's tables."""
        database = f"bench_{next(self._numbers)}"
        await self._administer("create_database", database, TEMPLATE if migrated else "template0")
        redis_url = self.redis.url_of(redis_database)
        async with Redis.from_url(redis_url) as client:
            await client.flushdb()
        target = RunTarget(self.postgres.url_of(database), redis_url, self._home.log_of(f"{database}-{name}"))
        try:
            yield target
        finally:
            await self._administer("drop_database", database)

    async def settle(self, target: RunTarget) -> None:
        """Statistics for the planner, and no checkpoint of earlier work inside the measurement."""
        await _execute(target.database_url, "ANALYZE")
        await _execute(target.database_url, "CHECKPOINT")

    async def versions(self) -> dict[str, str]:
        connection = await asyncpg.connect(self.postgres.url)
        try:
            postgres = str(await connection.fetchval("SHOW server_version"))
        finally:
            await connection.close()
        async with Redis.from_url(self.redis.url, decode_responses=True) as client:
            info = await client.info("server")
        return {"PostgreSQL": postgres, "Valkey": str(info["valkey_version"])}

    async def _administer(self, statement: str, name: str, template: str = "") -> None:
        text = (_SQL / f"{statement}.sql").read_text(encoding="utf-8")
        await _execute(self.postgres.url_of("postgres"), text.format(name=name, template=template))


@asynccontextmanager
async def shared_servers() -> AsyncIterator[SharedServers]:
    """Fresh servers, removed with their data at the end of the block."""
    async with AsyncExitStack() as running:
        home = Home.at(PLACE)
        running.enter_context(home.locked({}))
        _clear(home)
        Home.at(PLACE)
        running.callback(_clear, home)
        secrets = Secrets.fresh()
        postgres = await running.enter_async_context(
            EmbeddedPostgres(home, password=secrets.postgres_password, settings=DURABLE)
        )
        redis = await running.enter_async_context(
            EmbeddedRedis(home, password=secrets.redis_password, settings=DURABLE_REDIS)
        )
        made = SharedServers(home, postgres, redis)
        await made.prepare()
        yield made


def _clear(home: Home) -> None:
    for name in ("postgres", "redis", "logs"):
        shutil.rmtree(home.path / name, ignore_errors=True)


async def _execute(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()
