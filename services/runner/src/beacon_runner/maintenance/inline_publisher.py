"""Carries small groups of new messages to Redis straight after their commit, without a round of the relay.

The rows stay in the outbox until the push has succeeded, and go later, many at once. Whatever is left behind,
because the process died, Redis was away or too much was waiting, the relay finds there: it may be pushed
twice, and the queue knows it.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial

import structlog

from beacon_lifecycle import Clock, TaskSet
from beacon_redis import REDIS_ERRORS
from beacon_runner.domain.errors import StoreUnavailableError
from beacon_runner.domain.grants import in_time
from beacon_runner.domain.messages import OutboxEntry
from beacon_runner.metrics import LoopMetrics
from beacon_runner.ports.outbox import Outbox
from beacon_runner.ports.queue import MessageQueue

log = structlog.get_logger(__name__)

LARGEST_GROUP = 20
MOST_WAITING = 200
FORGET_AFTER_S = 0.05
MOST_UNFORGOTTEN = 10_000
LAST_ROUND_S = 5.0


class Express:
    name = "express"

    def __init__(
        self,
        queue: MessageQueue,
        outbox: Outbox,
        ring: Callable[[], None],
        clock: Clock,
        metrics: LoopMetrics,
    ) -> None:
        self._queue = queue
        self._outbox = outbox
        self._ring = ring
        self._clock = clock
        self._metrics = metrics
        self._begun: deque[tuple[Callable[[], Awaitable[int]], Sequence[int]]] = deque()
        self._waiting: list[OutboxEntry] = []
        self._numbers: list[int] = []
        self._arrived: list[int] = []
        self._something_waits = asyncio.Event()
        self._something_arrived = asyncio.Event()
        self._bringing = asyncio.Lock()  # so that stopping waits for what is under way
        self._forgetting = asyncio.Lock()
        self._tasks = TaskSet(self.name)

    def offer(self, entries: Sequence[OutboxEntry], numbers: Sequence[int]) -> None:
        """What has just been committed; more than a little at once is the relay's work."""
        if len(self._begun) + len(self._waiting) + len(entries) > MOST_WAITING:
            self._ring()
            return
        if not self._begin(entries, numbers):
            self._waiting += entries
            self._numbers += numbers
        self._something_waits.set()

    def _begin(self, entries: Sequence[OutboxEntry], numbers: Sequence[int]) -> bool:
        """A single one goes in this very step, unless others are before it: its job may begin now."""
        if self._waiting or len(entries) != 1:
            return False
        end = self._queue.begin_push(in_time(entries[0], self._clock.unix()))
        if end is not None:
            self._begun.append((end, numbers))
        return end is not None

    async def start(self) -> None:
        self._tasks.spawn("carry", self._carry())
        self._tasks.spawn("forget", self._forget())

    async def wait(self) -> None:
        await self._tasks.failed.wait()
        raise RuntimeError("the express ended") from self._tasks.failure

    async def stop(self) -> None:
        """Idempotent. What still waits is brought; what cannot be is left to the relay."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_ROUND_S):
                await self._bring()
                await self._forget_arrived()
        await self._tasks.close()

    async def _carry(self) -> None:
        while True:
            await self._something_waits.wait()
            self._something_waits.clear()
            await self._bring()

    async def _bring(self) -> None:
        async with self._bringing:
            await self._bring_waiting()

    async def _bring_waiting(self) -> None:
        while self._begun:
            await self._end(*self._begun.popleft())
        entries, self._waiting = self._waiting, []
        numbers, self._numbers = self._numbers, []
        if entries:
            in_times = [in_time(entry, self._clock.unix()) for entry in entries]
            await self._end(partial(self._queue.push, in_times), numbers)

    async def _end(self, push: Callable[[], Awaitable[int]], numbers: Sequence[int]) -> None:
        try:
            await push()
        except REDIS_ERRORS as error:
            log.info("express_leaves_to_relay", messages=len(numbers), error=str(error))
            return
        self._metrics.published.inc(len(numbers))
        if len(self._arrived) < MOST_UNFORGOTTEN:
            self._arrived += numbers
        self._something_arrived.set()

    async def _forget(self) -> None:
        while True:
            await self._something_arrived.wait()
            self._something_arrived.clear()
            await self._clock.sleep(FORGET_AFTER_S)
            await self._forget_arrived()

    async def _forget_arrived(self) -> None:
        async with self._forgetting:
            await self._forget_all()

    async def _forget_all(self) -> None:
        numbers, self._arrived = self._arrived, []
        if not numbers:
            return
        try:
            await self._outbox.forget(numbers)
        except StoreUnavailableError as error:
            log.info("outbox_not_cleared", messages=len(numbers), error=str(error))
