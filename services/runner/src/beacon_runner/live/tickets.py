"""Short-lived tickets: a browser opens a WebSocket without its key in an address that gets logged."""

import hashlib
import secrets
from dataclasses import dataclass
from uuid import UUID

import orjson
from redis.asyncio import Redis, RedisCluster

from beacon_contracts.ids import JobId, UserId

LIFETIME_S = 30


@dataclass(frozen=True, slots=True)
class Ticket:
    text: str
    expires_in_s: int


class Tickets:
    """In Redis, because the next request may reach another process; by hash, because Redis can be read."""

    def __init__(self, redis: Redis | RedisCluster) -> None:
        self._redis = redis

    async def issue(self, owner: UserId | None, job: JobId) -> Ticket:
        """`owner` is whose job it must be when the ticket is shown; None stands for anybody's."""
        text = secrets.token_urlsafe(24)
        value = orjson.dumps({"owner": None if owner is None else owner.hex, "job": job.hex})
        await self._redis.set(_key(text), value, ex=LIFETIME_S)
        return Ticket(text, LIFETIME_S)

    async def redeem(self, text: str, job: JobId) -> tuple[bool, UserId | None]:
        """Whether the ticket was good for this job, and its owner. Shown once, it is used up."""
        value = await self._redis.getdel(_key(text[:200]))
        kept = {} if value is None else orjson.loads(value)
        if kept.get("job") != job.hex:
            return False, None
        owner = kept["owner"]
        return True, None if owner is None else UserId(UUID(hex=owner))


def _key(text: str) -> str:
    return f"ticket:{hashlib.sha256(text.encode()).hexdigest()}"
