"""redis-py clients for one server, a server behind Sentinel, or a cluster, from one address."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from redis import Redis as SyncRedis
from redis import RedisCluster as SyncRedisCluster
from redis import Sentinel as SyncSentinel
from redis.asyncio import BlockingConnectionPool, Redis, RedisCluster
from redis.asyncio.sentinel import Sentinel, SentinelConnectionPool
from redis.backoff import NoBackoff
from redis.retry import Retry as SyncRetry
from redis.sentinel import SentinelConnectionPool as SyncSentinelConnectionPool

from beacon_redis.errors import UvloopRetry

MAX_CONNECTIONS = 64  # of one client to one server; further commands wait for a free one
_SENTINEL = "redis+sentinel://"


@dataclass(frozen=True, slots=True)
class RedisAddress:
    """`redis://…`, `rediss://…`, `unix://…`, or `redis+sentinel://:password@host:port,host:port/service/db`.

    A command is tried twice, because the first one after a restart of the server uses a closed connection.
    All operations of Beacon may be executed twice.
    """

    url: str
    cluster: bool = False
    timeout_s: float = 5.0

    @property
    def database(self) -> str:
        """The number of the database. Pub/sub channels are shared by all databases of a server."""
        last = urlsplit(self.url).path.strip("/").rpartition("/")[2]
        return last if last.isdigit() else "0"

    def open(self) -> Redis | RedisCluster:
        if self.cluster:
            return RedisCluster.from_url(self.url, **self._options(), retry=UvloopRetry(NoBackoff(), 1))
        return self._open_one(retries=1)

    def open_for_subscriptions(self) -> Redis:
        """A client that never reconnects automatically: a subscriber has to know about lost messages.

        In a cluster, any node delivers what is published on the others.
        """
        return self._open_one(retries=0)

    def open_blocking(self) -> SyncRedis | SyncRedisCluster:
        """A client for a thread that has no event loop."""
        retry = SyncRetry(NoBackoff(), 1)
        if self.cluster:
            return SyncRedisCluster.from_url(self.url, **self._options(), retry=retry)
        if not self._behind_sentinel:
            return SyncRedis.from_url(self.url, **self._options(), retry=retry)
        hosts, service, options = self._sentinel_parts()
        sentinel: Any = SyncSentinel
        client: SyncRedis = sentinel(hosts, **options).master_for(
            service, connection_pool_class=_SyncSentinelPool, **options, retry=retry
        )
        return client

    def _open_one(self, *, retries: int) -> Redis:
        retry = UvloopRetry(NoBackoff(), retries)
        if not self._behind_sentinel:
            pool = BlockingConnectionPool.from_url(
                self.url,
                **self._options(),
                retry=retry,
                max_connections=MAX_CONNECTIONS,
                timeout=self.timeout_s,
            )
            return Redis.from_pool(pool)
        hosts, service, options = self._sentinel_parts()
        sentinel: Any = Sentinel
        client: Redis = sentinel(hosts, **options).master_for(
            service, connection_pool_class=_SentinelPool, **options, retry=retry
        )
        return client

    @property
    def _behind_sentinel(self) -> bool:
        return self.url.startswith(_SENTINEL)

    def _options(self) -> dict[str, Any]:
        return {
            "decode_responses": True,
            "protocol": 2,
            "socket_timeout": self.timeout_s,
            "socket_connect_timeout": self.timeout_s,
        }

    def _sentinel_parts(self) -> tuple[list[tuple[str, int]], str, dict[str, Any]]:
        parts = urlsplit(self.url)
        nodes = parts.netloc.rpartition("@")[2].split(",")
        hosts = [(host, int(port or 26379)) for host, _, port in (node.partition(":") for node in nodes)]
        service, _, database = parts.path.strip("/").partition("/")
        secret = {"password": unquote(parts.password)} if parts.password else {}
        return hosts, service or "mymaster", {**self._options(), "db": int(database or 0), **secret}


class _SentinelPool(SentinelConnectionPool):
    """Closes the connections to the sentinels together with those to the primary."""

    async def aclose(self) -> None:
        await super().aclose()
        await self.sentinel_manager.aclose()


class _SyncSentinelPool(SyncSentinelConnectionPool):
    def close(self) -> None:
        super().close()
        self.sentinel_manager.close()
