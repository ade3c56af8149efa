"""Clients for one Redis, a Redis behind Sentinel, or a Redis Cluster, from one address."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from redis.asyncio import Redis, RedisCluster
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import NoBackoff

_SENTINEL = "redis+sentinel://"


@dataclass(frozen=True, slots=True)
class RedisAddress:
    """`redis://…`, `rediss://…`, `unix://…` or `redis+sentinel://:password@host:port,…/service/db`."""

    url: str
    cluster: bool = False

    @property
    def database(self) -> str:
        """Channels are one for all databases of a server: this tells those of ours apart."""
        last = urlsplit(self.url).path.strip("/").rpartition("/")[2]
        return last if last.isdigit() else "0"

    def commands(self, timeout_s: float) -> Redis | RedisCluster:
        """Every operation may be sent twice: the first after a restart meets a closed socket."""
        options = {**self._options(timeout_s), "retry": Retry(NoBackoff(), 1)}
        if self.cluster:
            return RedisCluster.from_url(self.url, **options)
        return self._single(options)

    def subscriptions(self, timeout_s: float) -> Redis:
        """Any node of a cluster hears what is published on the others. Reading never times out."""
        return self._single({**self._options(timeout_s), "socket_timeout": None})

    def _single(self, options: dict[str, Any]) -> Redis:
        if not self.url.startswith(_SENTINEL):
            return Redis.from_url(self.url, **options)
        parts = urlsplit(self.url)
        places = (place.partition(":") for place in parts.netloc.rpartition("@")[2].split(","))
        service, _, database = parts.path.strip("/").partition("/")
        secret = {"password": unquote(parts.password)} if parts.password else {}
        options = {**options, "db": int(database or 0), **secret}
        make_sentinel: Any = Sentinel
        sentinel = make_sentinel([(host, int(port or 26379)) for host, _, port in places], **options)
        client: Redis = sentinel.master_for(service or "mymaster", **options)
        return client

    @staticmethod
    def _options(timeout_s: float) -> dict[str, Any]:
        return {
            "decode_responses": True,
            "protocol": 2,
            "socket_timeout": timeout_s,
            "socket_connect_timeout": timeout_s,
        }
