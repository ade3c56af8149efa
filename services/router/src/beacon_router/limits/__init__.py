"""Slots that several processes share: leases in line order, in memory or in Redis, behind one port."""

from beacon_router.limits.memory import MemoryLimiter
from beacon_router.limits.port import News, SlotLimiter, Standing, Token, new_token
from beacon_router.limits.redis_limiter import RedisLimiter
from beacon_router.limits.share import LimitShare

__all__ = [
    "LimitShare",
    "MemoryLimiter",
    "News",
    "RedisLimiter",
    "SlotLimiter",
    "Standing",
    "Token",
    "new_token",
]
