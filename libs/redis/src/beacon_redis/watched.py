"""Clients of a primary that sentinels name: closed together with their connections to the sentinels."""

from typing import Any

from redis import Redis as SyncRedis

from beacon_redis.quick import QuickRedis


class Watched(QuickRedis):
    async def aclose(self, close_connection_pool: bool | None = None) -> None:
        await super().aclose(close_connection_pool)
        pool: Any = self.connection_pool
        for watcher in pool.sentinel_manager.sentinels:
            await watcher.aclose()


class BlockingWatched(SyncRedis):
    def close(self) -> None:
        super().close()
        pool: Any = self.connection_pool
        for watcher in pool.sentinel_manager.sentinels:
            watcher.close()
