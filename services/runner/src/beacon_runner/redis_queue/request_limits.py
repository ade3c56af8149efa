"""Limits on a user's requests in Redis, shared by all API processes."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, TypeVar

import structlog
from redis.asyncio import Redis, RedisCluster

from beacon_contracts.ids import UserId
from beacon_lifecycle import Clock, RunResult, TaskSet
from beacon_redis import REDIS_ERRORS
from beacon_runner.domain.limits.request_quota import (
    WINDOW_S,
    Admitted,
    LocalRequests,
    Refused,
    RequestQuota,
    RequestUse,
    admitted,
    reached_limit,
    refused,
)
from beacon_runner.redis_queue import scripts
from beacon_runner.redis_queue.scripts import Operation

log = structlog.get_logger(__name__)

T = TypeVar("T")

LEASE_S = 30.0
TIMEOUT_S = 2.0  # then the process decides alone
RETRY_S = 1.0  # without a call after one that failed
CLOSE_GRACE_S = 2.0
RENEWALS_AT_ONCE = 32


class RedisRequestLimits:
    """A request counts first in this process, then in Redis; either refuses it.

    The count of this process is a lower bound of the true use. It decides alone while Redis is unavailable,
    and it bounds the use after Redis was emptied, until all processes have renewed what they run.
    """

    def __init__(
        self,
        name: str,
        redis: Redis | RedisCluster,
        clock: Clock,
        *,
        lease_s: float = LEASE_S,
        window_s: float = WINDOW_S,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self.name = name
        self.renew_every_s = lease_s / 3
        self._redis = redis
        self._clock = clock
        self._lease_ms = round(lease_s * 1000)
        self._window_s = window_s
        self._timeout_s = timeout_s
        self._users: dict[UserId, LocalRequests] = {}
        self._tasks = TaskSet(f"{name}-limits")
        self._retry_at = clock.now()
        self._available = True
        self._closed = False

    async def admit(self, user: UserId, quota: RequestQuota, request_id: str) -> Admitted | Refused:
        if quota.unlimited:
            return admitted(user, request_id, quota, RequestUse())
        now = self._clock.now()
        local = self._users.setdefault(user, LocalRequests(self._window_s))
        use = local.use(quota, now)
        if reached_limit(quota, use) is not None:
            return refused(user, quota, use)
        counted = local.running - local.admitting
        local.add(request_id, now)
        local.admitting.add(request_id)
        try:
            reply = await self._try(partial(self._admit, user, quota, request_id))
        except BaseException:
            local.undo(request_id)
            await self._outlive_caller("forget", self._release(user, [request_id], forget=True))
            raise
        finally:
            local.admitting.discard(request_id)
        if reply is None:
            return admitted(user, request_id, quota, local.use(quota, now))
        is_admitted, use = reply
        if not is_admitted:
            local.undo(request_id)
            return refused(user, quota, use)
        if use.running <= len(counted & local.running):  # Redis was emptied
            await self._try(partial(self._renew, user, local))
        return admitted(user, request_id, quota, use)

    async def release(self, admission: Admitted) -> None:
        user, request_id = admission.user, admission.request_id
        local = self._users.get(user)
        if local is not None and request_id in local.running:
            local.running.remove(request_id)
            await self._outlive_caller("release", self._release(user, [request_id]))

    async def use(self, user: UserId, quota: RequestQuota) -> RequestUse:
        reply = await self._try(partial(self._run, Operation.REQUEST_USE, user, quota))
        if reply is not None:
            return _use(reply)
        return self._users.get(user, LocalRequests(self._window_s)).use(quota, self._clock.now())

    async def renew(self) -> RunResult:
        """Keep the leases of the running requests, and forget users without requests."""
        now = self._clock.now()
        for user in [user for user, local in self._users.items() if local.idle(now)]:
            del self._users[user]
        held = [(user, local) for user, local in self._users.items() if local.running]
        for start in range(0, len(held), RENEWALS_AT_ONCE):
            part = held[start : start + RENEWALS_AT_ONCE]
            await asyncio.gather(*(self._try(partial(self._renew, user, local)) for user, local in part))
        return RunResult(len(held))

    async def close(self) -> None:
        self._closed = True
        await self._tasks.drain(CLOSE_GRACE_S)
        await self._tasks.close()

    async def _admit(self, user: UserId, quota: RequestQuota, request_id: str) -> tuple[bool, RequestUse]:
        concurrent = quota.concurrent_requests or 0
        reply = await self._run(Operation.ADMIT_REQUEST, user, quota, concurrent, request_id)
        return bool(reply[0]), _use(reply[1:])

    async def _renew(self, user: UserId, local: LocalRequests) -> None:
        held = list(local.running)
        await self._run(Operation.RENEW_REQUESTS, user, RequestQuota(), *held)
        # Requests that were released in the meantime may have been restored.
        if ended := [request_id for request_id in held if request_id not in local.running]:
            await self._release(user, ended)

    async def _release(self, user: UserId, request_ids: Sequence[str], *, forget: bool = False) -> None:
        """If Redis does not execute this, the leases expire."""
        flag = "1" if forget else ""
        no_quota, operation = RequestQuota(), Operation.RELEASE_REQUESTS
        await self._try(partial(self._run, operation, user, no_quota, flag, *request_ids))

    async def _run(
        self, operation: Operation, user: UserId, quota: RequestQuota, *arguments: str | int
    ) -> Any:
        keys = [f"limits:{{{user.hex}}}:{self.name}:{kind}" for kind in ("started", "running")]
        window_ms, per_window = round(self._window_s * 1000), quota.requests_per_minute or 0
        return await scripts.run(
            self._redis, operation, keys, [window_ms, self._lease_ms, per_window, *arguments]
        )

    async def _try(self, call: Callable[[], Awaitable[T]]) -> T | None:
        """None while Redis is unavailable: after a failed call there is none for a moment."""
        if self._clock.now() < self._retry_at:
            return None
        try:
            async with asyncio.timeout(self._timeout_s):
                result = await call()
        except (TimeoutError, *REDIS_ERRORS) as error:
            self._retry_at = self._clock.now() + RETRY_S
            self._report(available=False, error=str(error))
            return None
        self._report(available=True)
        return result

    def _report(self, *, available: bool, error: str = "") -> None:
        if available is not self._available:
            self._available = available
            log.warning("shared_limits_changed", limits=self.name, shared=available, error=error)

    async def _outlive_caller(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        if self._closed:
            work.close()
        else:
            await asyncio.shield(self._tasks.spawn(name, work))


def _use(reply: Sequence[int]) -> RequestUse:
    started, running, room_in_ms, clear_in_ms = reply
    return RequestUse(started, running, room_in_ms / 1000, clear_in_ms / 1000)
