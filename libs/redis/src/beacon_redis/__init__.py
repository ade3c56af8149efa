"""Access to Redis and Valkey: addresses, clients, Lua scripts and subscriptions, all on redis-py."""

from beacon_redis.address import RedisAddress
from beacon_redis.errors import REDIS_ERRORS
from beacon_redis.scripts import LuaScripts
from beacon_redis.subscriber import Subscriber

__all__ = ["REDIS_ERRORS", "LuaScripts", "RedisAddress", "Subscriber"]
