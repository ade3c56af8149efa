"""Concurrent writes share transactions by natural batching: a flush starts as soon as the last one ended."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from beacon_lifecycle import TaskSet
from beacon_runner.domain.errors import StoreUnavailableError

AT_ONCE = 2  # flushes; the second only for a crowd

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(slots=True)
class _Waiting(Generic[Item, Result]):
    items: Sequence[Item]
    answer: "asyncio.Future[Sequence[Result]]"


class GroupCommit(Generic[Item, Result]):
    """Collects what arrives while a flush is under way into the next one. No timer: when idle, none waits.

    A crowd does not wait for the disk: so many items are flushed beside what is under way.

    A group of items is written whole or not at all, and answered only after its commit. When a shared flush
    is refused, each group is written alone, so that one group's error is its own.
    """

    def __init__(
        self,
        name: str,
        write: Callable[[Sequence[Item]], Awaitable[Sequence[Result]]],
        *,
        most: int = 1_000,
        crowd: int = 200,
    ) -> None:
        self._write = write
        self._most = most
        self._crowd = crowd
        self._waiting: list[_Waiting[Item, Result]] = []
        self._items = 0  # of all that wait
        self._tasks = TaskSet(name)
        self._flushes = 0

    async def submit(self, items: Sequence[Item]) -> Sequence[Result]:
        """Returns after the commit; a caller that is cancelled does not take the write back."""
        answer: asyncio.Future[Sequence[Result]] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(items, answer))
        self._items += len(items)
        if not self._flushes or (self._flushes < AT_ONCE and self._items >= self._crowd):
            self._flushes += 1
            self._tasks.spawn("flush", self._flush_all())
        return await answer

    async def close(self) -> None:
        """Let what was accepted be written."""
        await self._tasks.drain(30.0)
        await self._tasks.close()

    async def _flush_all(self) -> None:
        try:
            while self._waiting and (self._flushes == 1 or self._items >= self._crowd):
                await self._flush(self._take())
        finally:
            self._flushes -= 1

    def _take(self) -> list[_Waiting[Item, Result]]:
        """The oldest groups, up to the most that one statement should hold, and at least one."""
        size = count = 0
        for group in self._waiting:
            if count and size + len(group.items) > self._most:
                break
            size += len(group.items)
            count += 1
        taken, self._waiting = self._waiting[:count], self._waiting[count:]
        self._items -= size
        return taken

    async def _flush(self, groups: list[_Waiting[Item, Result]]) -> None:
        items = [item for group in groups for item in group.items]
        try:
            results = await self._write(items)
        except StoreUnavailableError as error:
            _fail(groups, error)
        except Exception as error:  # noqa: BLE001 - handed to the callers whose write it was
            if len(groups) == 1:
                _fail(groups, error)
            else:
                for group in groups:
                    await self._flush([group])
        else:
            _answer(groups, results)


def _answer(groups: list[_Waiting[Item, Result]], results: Sequence[Result]) -> None:
    start = 0
    for group in groups:
        end = start + len(group.items)
        if not group.answer.done():
            group.answer.set_result(results[start:end])
        start = end


def _fail(groups: list[_Waiting[Item, Result]], error: Exception) -> None:
    for group in groups:
        if not group.answer.done():
            group.answer.set_exception(error)
