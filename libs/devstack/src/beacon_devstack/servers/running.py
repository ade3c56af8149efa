"""Postgres and Valkey for the system: those given by address, otherwise embedded ones."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from beacon_devstack.errors import DevstackError
from beacon_devstack.home import Home
from beacon_devstack.secret_store import Secrets
from beacon_devstack.servers.postgres import DURABLE as DURABLE_POSTGRES
from beacon_devstack.servers.postgres import EmbeddedPostgres
from beacon_devstack.servers.redis import EmbeddedRedis


@dataclass(frozen=True, slots=True)
class Servers:
    """Their addresses, and the embedded servers that were started."""

    database_url: str
    redis_url: str
    postgres: EmbeddedPostgres | None = None
    redis: EmbeddedRedis | None = None

    @property
    def embedded(self) -> tuple[EmbeddedPostgres | EmbeddedRedis, ...]:
        return tuple(server for server in (self.postgres, self.redis) if server is not None)


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Addresses replace the embedded servers; ports are those of the embedded ones, 0 for any free."""

    database_url: str | None = None
    redis_url: str | None = None
    postgres_port: int = 0
    redis_port: int = 0

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "ServerSettings":
        return cls(
            database_url=environment.get("DATABASE_URL") or None,
            redis_url=environment.get("REDIS_URL") or None,
            postgres_port=port_setting(environment, EmbeddedPostgres.port_setting, default=0),
            redis_port=port_setting(environment, EmbeddedRedis.port_setting, default=0),
        )


@asynccontextmanager
async def running_servers(
    home: Home,
    secrets: Secrets,
    settings: ServerSettings,
    *,
    postgres_settings: Mapping[str, str] = DURABLE_POSTGRES,
) -> AsyncIterator[Servers]:
    """Start the servers that have no address. The caller holds the home."""
    async with AsyncExitStack() as running:
        postgres = redis = None
        if settings.database_url is None:
            postgres = await running.enter_async_context(
                EmbeddedPostgres(
                    home,
                    password=secrets.postgres_password,
                    port=settings.postgres_port,
                    settings=postgres_settings,
                )
            )
        if settings.redis_url is None:
            redis = await running.enter_async_context(
                EmbeddedRedis(home, password=secrets.redis_password, port=settings.redis_port)
            )
        yield Servers(
            database_url=settings.database_url or (postgres.url if postgres else ""),
            redis_url=settings.redis_url or (redis.url if redis else ""),
            postgres=postgres,
            redis=redis,
        )


def port_setting(environment: Mapping[str, str], name: str, *, default: int) -> int:
    value = environment.get(name) or str(default)
    if not value.isdecimal() or int(value) > 65535:
        raise DevstackError("settings", f"{name} must be a port between 0 and 65535, got {value!r}")
    return int(value)
