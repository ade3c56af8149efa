"""Redis as every Beacon service meets it: one address for any kind of server, and operations in Lua files."""

from beacon_redis.address import REDIS_ERRORS, RedisAddress
from beacon_redis.ear import Ear
from beacon_redis.quick import QuickRedis
from beacon_redis.scripts import LuaScripts

__all__ = ["REDIS_ERRORS", "Ear", "LuaScripts", "QuickRedis", "RedisAddress"]
