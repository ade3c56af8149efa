"""Redis adapters: a transport that can be rebuilt from Postgres at any time."""

from beacon_runner.redis_queue.admin import RedisQueueAdmin
from beacon_runner.redis_queue.keys import Layout
from beacon_runner.redis_queue.redis_queue import RedisQueue

__all__ = ["Layout", "RedisQueue", "RedisQueueAdmin"]
