"""Task sets: no task is lost or dies unnoticed, all end with their owner."""

import asyncio
import contextlib
import inspect

import pytest
from structlog.testing import capture_logs

from beacon_lifecycle import TaskSet
from tests.fixtures.waiting import WAIT_TIMEOUT_S


async def forever() -> None:
    await asyncio.Event().wait()


async def fail(message: str) -> None:
    raise ValueError(message)


async def test_tasks_are_named_after_their_owner_and_counted() -> None:
    tasks = TaskSet("router")
    task = tasks.spawn("send", forever())
    assert task.get_name() == "router:send"
    assert len(tasks) == 1
    await tasks.close()
    assert len(tasks) == 0


async def test_the_first_death_is_kept_and_every_death_is_logged() -> None:
    tasks = TaskSet("router")
    with capture_logs() as lines:
        tasks.spawn("one", fail("first"))
        tasks.spawn("two", fail("second"))
        await asyncio.wait_for(tasks.failed.wait(), WAIT_TIMEOUT_S)
        await tasks.close()
    assert str(tasks.failure) == "first"
    assert [line["task"] for line in lines if line["event"] == "task_died"] == ["router:one", "router:two"]


async def test_a_cancelled_task_is_no_death() -> None:
    tasks = TaskSet("router")
    tasks.spawn("one", forever()).cancel()
    await tasks.close()
    assert tasks.failure is None
    assert not tasks.failed.is_set()


async def test_close_waits_for_clean_up_and_can_be_repeated() -> None:
    tasks, cleaned = TaskSet("router"), []

    async def clean_up_slowly() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append(True)

    tasks.spawn("one", clean_up_slowly())
    await asyncio.sleep(0)
    await asyncio.gather(tasks.close(), tasks.close())
    await tasks.close()
    assert cleaned == [True]


async def test_a_closed_owner_takes_no_new_task() -> None:
    tasks = TaskSet("router")
    await tasks.close()
    work = forever()
    with pytest.raises(RuntimeError, match=r"router is stopping .*\(late\)"):
        tasks.spawn("late", work)
    assert inspect.getcoroutinestate(work) == "CORO_CLOSED", (
        "the coroutine must be closed, or Python warns about it"
    )


async def test_drain_waits_for_the_tasks() -> None:
    tasks, gate = TaskSet("router"), asyncio.Event()

    async def wait_for_gate() -> None:
        await gate.wait()

    task = tasks.spawn("one", wait_for_gate())
    assert not await tasks.drain(0.01)
    gate.set()
    assert await tasks.drain(5)
    assert task.done()
    assert not task.cancelled()


async def test_drain_without_tasks_returns_at_once() -> None:
    assert await TaskSet("router").drain(0)


async def test_a_task_can_close_its_task_set() -> None:
    tasks, closed = TaskSet("router"), asyncio.Event()
    other = tasks.spawn("other", forever())

    async def close_all() -> None:
        await tasks.close()
        closed.set()

    tasks.spawn("closer", close_all())
    await asyncio.wait_for(closed.wait(), WAIT_TIMEOUT_S)
    assert other.cancelled()


async def test_a_task_that_swallowed_its_cancellation_is_cancelled_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("beacon_lifecycle.tasks.CANCEL_AGAIN_S", 0.01)
    tasks, started = TaskSet("owner"), asyncio.Event()

    async def deaf_once() -> None:
        started.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        await asyncio.Event().wait()

    task = tasks.spawn("deaf", deaf_once())
    await started.wait()
    await tasks.close()
    assert task.cancelled()
