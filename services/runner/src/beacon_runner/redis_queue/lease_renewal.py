"""Renews the leases of one worker over a blocking connection of its own."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

from redis import Redis, RedisCluster

from beacon_redis import RedisAddress
from beacon_runner.domain.queue.messages import Message
from beacon_runner.ports.leases import Renewal
from beacon_runner.redis_queue.keys import Layout
from beacon_runner.redis_queue.redis_queue import MAX_SCRIPT_MESSAGES, pack_args, payload_of
from beacon_runner.redis_queue.scripts import Operation, redis_errors, run_blocking


class RedisLeaseRenewal:
    def __init__(self, address: RedisAddress, layout: Layout, worker: str, *, lease_s: float) -> None:
        self._address = address
        self._redis: Redis | RedisCluster | None = None  # opened when it is needed: a cluster may start later
        self._layout = layout
        self._worker = worker
        self._lease_ms = round(lease_s * 1000)

    def renew(self, messages: Sequence[Message]) -> Renewal:
        lost: list[str] = []
        restored: list[str] = []
        retaken: list[str] = []
        for start in range(0, len(messages), MAX_SCRIPT_MESSAGES):
            chunk = messages[start : start + MAX_SCRIPT_MESSAGES]
            pairs = chain.from_iterable((message.id, payload_of(message)) for message in chunk)
            answer = self._run(Operation.EXTEND, self._lease_ms, self._worker, *pairs)
            for found, more in zip((lost, restored, retaken), answer, strict=True):
                found.extend(more)
        if not messages:
            with redis_errors():
                self._connected().ping()
        return Renewal(lost, restored, retaken)

    def ack(self, message_ids: Sequence[str]) -> None:
        self._run(Operation.ACK, self._worker, pack_args(message_ids))

    def nack(self, message_ids: Sequence[str]) -> None:
        self._run(Operation.NACK, self._worker, *message_ids)

    def close(self) -> None:
        if self._redis is not None:
            self._redis.close()

    def _run(self, operation: Operation, *arguments: str | int) -> Any:
        layout = self._layout
        with redis_errors():
            redis = self._connected()
            return run_blocking(redis, operation, layout.shared, (*layout.arguments, *arguments))

    def _connected(self) -> Redis | RedisCluster:
        if self._redis is None:
            self._redis = self._address.open_blocking()
        return self._redis
