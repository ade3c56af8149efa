"""Named tasks with an owner, which cancels them at its end and reports their errors."""

import asyncio
from collections.abc import Coroutine
from contextvars import Context
from typing import Any

import structlog

log = structlog.get_logger(__name__)

CANCEL_AGAIN_S = 3.0  # longer than any clean-up should take


class TaskSet:
    """A set of named tasks that ends with its owner; the first unexpected death is kept in `failure`."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        self.failed = asyncio.Event()
        self.failure: BaseException | None = None

    def __len__(self) -> int:
        return len(self._tasks)

    def spawn(
        self, name: str, work: Coroutine[Any, Any, None], *, context: Context | None = None
    ) -> asyncio.Task[None]:
        if self._closed:
            work.close()
            raise RuntimeError(f"{self._owner} is stopping and takes no new task ({name})")
        task = asyncio.create_task(work, name=f"{self._owner}:{name}", context=context)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def drain(self, grace_s: float) -> bool:
        """Accept no new tasks and wait for the others; true when all ended in time."""
        self._closed = True
        if not self._tasks:
            return True
        _, pending = await asyncio.wait(set(self._tasks), timeout=grace_s)
        return not pending

    async def close(self) -> None:
        """Cancel what still runs and wait for it; idempotent. Its own tasks may call it: they end last."""
        self._closed = True
        tasks = self._tasks - {asyncio.current_task()}
        while tasks:
            for task in tasks:
                task.cancel()
            # A library may swallow a cancellation that comes while it connects: it is cancelled again.
            _, tasks = await asyncio.wait(tasks, timeout=CANCEL_AGAIN_S)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            return
        log.error("task_died", task=task.get_name(), exc_info=error)
        if self.failure is None:
            self.failure = error
            self.failed.set()
