"""The Redis side: transport that can be lost and rebuilt at any time."""

from beacon_runner.queue.desk import RedisDesk
from beacon_runner.queue.keys import Layout
from beacon_runner.queue.redis_queue import RedisQueue

__all__ = ["Layout", "RedisDesk", "RedisQueue"]
