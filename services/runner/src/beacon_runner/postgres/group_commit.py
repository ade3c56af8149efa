"""Concurrent writes share transactions: what arrives during a flush is written by the next one."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from beacon_lifecycle import TaskSet
from beacon_runner.domain.errors import StoreUnavailableError

MAX_FLUSHES = 2
CLOSE_TIMEOUT_S = 30.0

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(slots=True)
class _Group(Generic[Item, Result]):
    items: Sequence[Item]
    answer: "asyncio.Future[Sequence[Result]]"


class GroupCommit(Generic[Item, Result]):
    """There is no timer: a write to an idle store starts immediately.

    With `second_flush_at` or more pending items a second flush starts while the first one is under way.

    A group of items is written completely or not at all, and answered after its commit. If a shared flush is
    refused, each group is written alone, so that an error reaches only the group that caused it.
    """

    def __init__(
        self,
        name: str,
        write: Callable[[Sequence[Item]], Awaitable[Sequence[Result]]],
        *,
        max_items: int = 1_000,
        second_flush_at: int = 200,
    ) -> None:
        self._write = write
        self._max_items = max_items
        self._second_flush_at = second_flush_at
        self._pending: list[_Group[Item, Result]] = []
        self._pending_items = 0
        self._tasks = TaskSet(name)
        self._flushes = 0

    async def submit(self, items: Sequence[Item]) -> Sequence[Result]:
        """Returns after the commit. The write continues when the caller is cancelled."""
        answer: asyncio.Future[Sequence[Result]] = asyncio.get_running_loop().create_future()
        self._pending.append(_Group(items, answer))
        self._pending_items += len(items)
        full = self._pending_items >= self._second_flush_at
        if not self._flushes or (full and self._flushes < MAX_FLUSHES):
            self._flushes += 1
            self._tasks.spawn("flush", self._flush_pending())
        return await answer

    async def close(self) -> None:
        """Write everything that was accepted."""
        await self._tasks.drain(CLOSE_TIMEOUT_S)
        await self._tasks.close()

    async def _flush_pending(self) -> None:
        try:
            while self._pending and (self._flushes == 1 or self._pending_items >= self._second_flush_at):
                size = count = 0
                for group in self._pending:  # the oldest ones, at least one
                    if count and size + len(group.items) > self._max_items:
                        break
                    size += len(group.items)
                    count += 1
                groups, self._pending = self._pending[:count], self._pending[count:]
                self._pending_items -= size
                await self._flush(groups)
        finally:
            self._flushes -= 1

    async def _flush(self, groups: Sequence[_Group[Item, Result]]) -> None:
        try:
            results = await self._write([item for group in groups for item in group.items])
        except Exception as error:  # noqa: BLE001 - raised in the callers whose write it was
            if len(groups) > 1 and not isinstance(error, StoreUnavailableError):
                for group in groups:
                    await self._flush([group])
                return
            for group in groups:
                if not group.answer.done():
                    group.answer.set_exception(error)
            return
        start = 0
        for group in groups:
            end = start + len(group.items)
            if not group.answer.done():
                group.answer.set_result(results[start:end])
            start = end
