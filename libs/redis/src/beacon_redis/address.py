"""Clients for one Redis, a Redis behind Sentinel, or a Redis Cluster, from one address."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from redis import Redis as SyncRedis
from redis import RedisCluster as SyncRedisCluster
from redis import Sentinel as SyncSentinel
from redis.asyncio import Redis, RedisCluster
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import NoBackoff
from redis.exceptions import RedisClusterException, RedisError
from redis.retry import Retry as SyncRetry

from beacon_redis.quick import QuickRedis
from beacon_redis.watched import BlockingWatched, Watched

# Everything that means «not now»; a cluster that has not formed yet has an error of its own.
REDIS_ERRORS = (RedisError, RedisClusterException, OSError)

_SENTINEL = "redis+sentinel://"


@dataclass(frozen=True, slots=True)
class RedisAddress:
    """`redis://…`, `rediss://…`, `unix://…`, or `redis+sentinel://:password@host:port,host:port/service/db`.

    A command is tried twice, because the first one after a restart meets a closed connection; all our
    operations bear that.
    """

    url: str
    cluster: bool = False
    timeout_s: float = 5.0

    @property
    def database(self) -> str:
        """Channels are one for all databases of a server: this tells those of ours apart."""
        last = urlsplit(self.url).path.strip("/").rpartition("/")[2]
        return last if last.isdigit() else "0"

    def open(self) -> Redis | RedisCluster:
        retry = Retry(NoBackoff(), 1)
        if self.cluster:
            return RedisCluster.from_url(self.url, **self._options(), retry=retry)
        return self._open_one(retry=retry)

    def open_listener(self, *, reads_for_ever: bool = False) -> Redis:
        """A client for subscriptions: any node of a cluster hears what is published on the others.

        It never connects again by itself, so that whoever listens learns that something may have been missed.
        """
        unlimited = {"socket_timeout": None} if reads_for_ever else {}
        return self._open_one(retry=Retry(NoBackoff(), 0), **unlimited)

    def open_blocking(self) -> SyncRedis | SyncRedisCluster:
        retry = SyncRetry(NoBackoff(), 1)
        if self.cluster:
            return SyncRedisCluster.from_url(self.url, **self._options(), retry=retry)
        if self._behind_sentinel:
            hosts, service, options = self._sentinel_parts()
            sentinel: Any = SyncSentinel
            primary_for = sentinel(hosts, **options).master_for
            blocking: SyncRedis = primary_for(service, BlockingWatched, **options, retry=retry)
            return blocking
        return SyncRedis.from_url(self.url, **self._options(), retry=retry)

    def _open_one(self, **more: Any) -> Redis:
        if not self._behind_sentinel:
            return QuickRedis.from_url(self.url, **{**self._options(), **more})
        hosts, service, options = self._sentinel_parts()
        sentinel: Any = Sentinel
        client: Redis = sentinel(hosts, **options).master_for(service, Watched, **{**options, **more})
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
        places = parts.netloc.rpartition("@")[2].split(",")
        hosts = [(host, int(port or 26379)) for host, _, port in (place.partition(":") for place in places)]
        service, _, database = parts.path.strip("/").partition("/")
        secret = {"password": unquote(parts.password)} if parts.password else {}
        return hosts, service or "mymaster", {**self._options(), "db": int(database or 0), **secret}
