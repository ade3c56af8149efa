"""Reports of states that change soon wait for each other, and cost one timer."""

import asyncio
from typing import Any

import pytest

from beacon_runner.worker.pending_reports import PendingReports
from beacon_runner.worker.run import JobRun
from tests.unit.runner_loops.test_job_run import AT, opened, start


def waiting_run() -> JobRun:
    """A run whose execution waits at a router, which is not recorded yet."""
    run = opened()
    run.observe(start(run, 1)[0], None, AT)
    return run


async def test_delayed_reports_share_one_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often all of them are written with results before they are due."""
    loop, reports = asyncio.get_running_loop(), PendingReports()
    timers: list[asyncio.TimerHandle] = []
    call_later = loop.call_later

    def counted(*arguments: Any, **more: Any) -> asyncio.TimerHandle:
        timers.append(call_later(*arguments, **more))
        return timers[-1]

    monkeypatch.setattr(loop, "call_later", counted)
    for _ in range(20):
        ended = waiting_run()
        reports.add_later(ended)
        reports.add(ended)
        reports.written(await reports.take())
    last = waiting_run()
    reports.add_later(last)
    assert len(timers) == 1
    assert await reports.take() == [last]
