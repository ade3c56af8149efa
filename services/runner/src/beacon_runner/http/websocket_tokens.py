"""Short-lived tickets: a browser opens a WebSocket without its key in an address that gets logged."""

import hashlib
import secrets
from dataclasses import dataclass

import orjson
from redis.asyncio import Redis, RedisCluster

from beacon_contracts.ids import JobId

LIFETIME_S = 30


@dataclass(frozen=True, slots=True)
class Ticket:
    text: str
    expires_in_s: int


class Tickets:
    """In Redis, because the next request may reach another process; by hash, because Redis can be read."""

    def __init__(self, redis: Redis | RedisCluster) -> None:
        self._redis = redis

    async def issue(self, key_hash: bytes, job: JobId) -> Ticket:
        """It stands for the key, and is worth nothing once the key is."""
        text = secrets.token_urlsafe(24)
        value = orjson.dumps({"key": key_hash.hex(), "job": job.hex})
        await self._redis.set(_key(text), value, ex=LIFETIME_S)
        return Ticket(text, LIFETIME_S)

    async def redeem(self, text: str, job: JobId) -> bytes | None:
        """The hash of the key that it stands for, if it was good for this job. Shown once, it is used up."""
        value = await self._redis.getdel(_key(text[:200]))
        kept = {} if value is None else orjson.loads(value)
        return bytes.fromhex(kept["key"]) if kept.get("job") == job.hex else None


def _key(text: str) -> str:
    return f"ticket:{hashlib.sha256(text.encode()).hexdigest()}"
