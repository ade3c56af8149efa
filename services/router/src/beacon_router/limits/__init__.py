"""Limits shared by several processes: leases in queue order, in Redis, behind one port."""

from beacon_router.limits.lease import CapacityLease
from beacon_router.limits.port import LimitEvent, SlotLimiter, Token, TokenStatus, new_token
from beacon_router.limits.redis_limiter import RedisLimiter

__all__ = [
    "CapacityLease",
    "LimitEvent",
    "RedisLimiter",
    "SlotLimiter",
    "Token",
    "TokenStatus",
    "new_token",
]
