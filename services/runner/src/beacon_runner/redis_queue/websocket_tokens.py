"""Short-lived tokens with which browsers open WebSockets: an API key in a URL would be logged."""

import hashlib
import secrets

import orjson
from redis.asyncio import Redis, RedisCluster

from beacon_contracts.ids import JobId
from beacon_runner.ports.events import WebSocketToken
from beacon_runner.redis_queue.scripts import redis_errors

LIFETIME_S = 30


class RedisWebSocketTokens:
    """In Redis, because another process may serve the WebSocket; hashed, because Redis can be read."""

    def __init__(self, redis: Redis | RedisCluster) -> None:
        self._redis = redis

    async def issue(self, key_hash: bytes, job: JobId) -> WebSocketToken:
        text = secrets.token_urlsafe(24)
        value = orjson.dumps({"key": key_hash.hex(), "job": job.hex})
        with redis_errors():
            await self._redis.set(_redis_key(text), value, ex=LIFETIME_S)
        return WebSocketToken(text, LIFETIME_S)

    async def redeem(self, text: str, job: JobId) -> bytes | None:
        with redis_errors():
            value = await self._redis.getdel(_redis_key(text[:200]))
        kept = {} if value is None else orjson.loads(value)
        return bytes.fromhex(kept["key"]) if kept.get("job") == job.hex else None


def _redis_key(text: str) -> str:
    return f"ticket:{hashlib.sha256(text.encode()).hexdigest()}"
