"""Redis as every Beacon service meets it: one address for any kind of server, and operations in Lua files."""

from beacon_redis.address import REDIS_ERRORS, RedisAddress
from beacon_redis.scripts import LuaScripts

__all__ = ["REDIS_ERRORS", "LuaScripts", "RedisAddress"]
