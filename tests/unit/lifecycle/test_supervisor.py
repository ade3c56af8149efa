"""The supervisor: ordered start, reverse stop within a bound, and one death stops all."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap

import pytest
from structlog.testing import capture_logs

from beacon_lifecycle import Supervisor
from tests.fixtures.waiting import WAIT_TIMEOUT_S


class Part:
    """A service that records its calls."""

    def __init__(self, name: str, story: list[str]) -> None:
        self.name = name
        self.story = story
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def start(self) -> None:
        self.story.append(f"start {self.name}")

    async def wait(self) -> None:
        await asyncio.shield(self.ended)

    async def stop(self) -> None:
        self.story.append(f"stop {self.name}")
        if not self.ended.done():
            self.ended.set_result(None)


class SlowStart(Part):
    async def start(self) -> None:
        await super().start()
        await asyncio.Event().wait()


class FailedStart(Part):
    async def start(self) -> None:
        await super().start()
        raise ConnectionError("no database")


class Stuck(Part):
    """Its stop never ends; with `stubborn` it also ignores cancellation."""

    stubborn = False

    async def stop(self) -> None:
        await super().stop()
        gate = asyncio.Event()
        while True:
            try:
                await gate.wait()
            except asyncio.CancelledError:
                if not self.stubborn:
                    raise


class FailedStop(Part):
    async def stop(self) -> None:
        await super().stop()
        raise OSError("disk gone")


async def until(story: list[str], line: str) -> None:
    for _ in range(1000):
        if line in story:
            return
        await asyncio.sleep(0)
    raise TimeoutError(f"{line!r} never happened: {story}")


@pytest.fixture
def story() -> list[str]:
    return []


async def run(supervisor: Supervisor) -> None:
    await asyncio.wait_for(supervisor.run(), WAIT_TIMEOUT_S)


async def test_services_start_in_order_and_stop_in_reverse(story: list[str]) -> None:
    supervisor = Supervisor([Part(name, story) for name in ("store", "queue", "http")])
    running = asyncio.ensure_future(run(supervisor))
    await until(story, "start http")
    supervisor.request_stop()
    supervisor.request_stop()
    await running
    assert story == ["start store", "start queue", "start http", "stop http", "stop queue", "stop store"]


async def test_the_death_of_one_stops_all_and_is_raised(story: list[str]) -> None:
    parts = [Part(name, story) for name in ("store", "queue", "http")]
    running = asyncio.ensure_future(run(Supervisor(parts)))
    await until(story, "start http")
    parts[1].ended.set_exception(ConnectionError("lost"))
    with capture_logs() as lines, pytest.raises(RuntimeError, match="queue ended unexpectedly") as raised:
        await running
    assert isinstance(raised.value.__cause__, ConnectionError)
    assert [line["service"] for line in lines if line["event"] == "service_died"] == ["queue"]
    assert story[3:] == ["stop http", "stop queue", "stop store"]


async def test_a_service_that_ends_without_an_error_is_dead_too(story: list[str]) -> None:
    parts = [Part("store", story), Part("http", story)]
    running = asyncio.ensure_future(run(Supervisor(parts)))
    await until(story, "start http")
    parts[0].ended.set_result(None)
    with pytest.raises(RuntimeError, match="store ended unexpectedly"):
        await running


async def test_a_cancelled_service_is_dead_too(story: list[str]) -> None:
    parts = [Part("store", story), Part("http", story)]
    running = asyncio.ensure_future(run(Supervisor(parts)))
    await until(story, "start http")
    parts[0].ended.cancel()
    with pytest.raises(RuntimeError, match="store ended unexpectedly"):
        await running
    assert story[2:] == ["stop http", "stop store"]


async def test_a_failed_start_stops_started_services_and_is_raised(story: list[str]) -> None:
    supervisor = Supervisor([Part("store", story), FailedStart("queue", story), Part("http", story)])
    with pytest.raises(ConnectionError, match="no database"):
        await run(supervisor)
    assert story == ["start store", "start queue", "stop queue", "stop store"]


async def test_a_stop_during_a_slow_start_is_obeyed(story: list[str]) -> None:
    supervisor = Supervisor([Part("store", story), SlowStart("queue", story), Part("http", story)])
    running = asyncio.ensure_future(run(supervisor))
    await until(story, "start queue")
    supervisor.request_stop()
    await running
    assert story == ["start store", "start queue", "stop queue", "stop store"]


async def test_a_death_during_a_slow_start_is_noticed(story: list[str]) -> None:
    first = Part("store", story)
    running = asyncio.ensure_future(run(Supervisor([first, SlowStart("queue", story)])))
    await until(story, "start queue")
    first.ended.set_exception(ConnectionError("lost"))
    with pytest.raises(RuntimeError, match="store ended unexpectedly"):
        await running
    assert story[2:] == ["stop queue", "stop store"]


async def test_a_stop_before_the_run_leaves_no_service_running(story: list[str]) -> None:
    supervisor = Supervisor([Part("store", story), Part("http", story)])
    supervisor.request_stop()
    await run(supervisor)
    assert "start http" not in story
    assert story in (["start store", "stop store"], ["stop store"])


@pytest.mark.parametrize("stubborn", [False, True])
async def test_a_stuck_stop_is_bounded_and_the_rest_still_stop(story: list[str], stubborn: bool) -> None:
    stuck = Stuck("queue", story)
    stuck.stubborn = stubborn
    supervisor = Supervisor([Part("store", story), stuck], stop_timeout_s=0.01)
    running = asyncio.ensure_future(run(supervisor))
    await until(story, "start queue")
    supervisor.request_stop()
    with capture_logs() as lines:
        await running
    assert story[-2:] == ["stop queue", "stop store"]
    assert "service_stop_timed_out" in [line["event"] for line in lines]
    stuck.stubborn = False
    await end_all_others()


async def end_all_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


async def test_a_failed_stop_is_logged_and_the_rest_still_stop(story: list[str]) -> None:
    supervisor = Supervisor([Part("store", story), FailedStop("queue", story)])
    running = asyncio.ensure_future(run(supervisor))
    await until(story, "start queue")
    supervisor.request_stop()
    with capture_logs() as lines:
        await running
    assert story[-1] == "stop store"
    assert "service_stop_failed" in [line["event"] for line in lines]


async def test_no_task_is_left_behind(story: list[str]) -> None:
    before = asyncio.all_tasks()
    supervisor = Supervisor([Part("store", story), Part("http", story)])
    running = asyncio.ensure_future(run(supervisor))
    await until(story, "start http")
    supervisor.request_stop()
    await running
    assert asyncio.all_tasks() - before == set()


PROCESS = textwrap.dedent("""
    import asyncio, sys
    from beacon_lifecycle import Supervisor, run_process

    class Part:
        name = "part"
        def __init__(self): self.ended = asyncio.Event()
        async def start(self):
            print("started", flush=True)
            if "fail" in sys.argv: raise ConnectionError("no database")
        async def wait(self):
            if "die" in sys.argv: return
            await self.ended.wait()
        async def stop(self):
            print("stopped", flush=True)
            self.ended.set()

    async def build(): return Supervisor([Part()])
    sys.exit(run_process(build))
""")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_process_in_order_with_exit_code_0(number: signal.Signals) -> None:
    with start_process() as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        os.kill(process.pid, number)
        output, _ = process.communicate(timeout=WAIT_TIMEOUT_S)
        assert process.returncode == 0
        assert "stopped" in output


@pytest.mark.parametrize("how", ["fail", "die"])
def test_a_failed_service_ends_the_process_with_exit_code_1(how: str) -> None:
    with start_process(how) as process:
        output, _ = process.communicate(timeout=WAIT_TIMEOUT_S)
        assert process.returncode == 1
        assert "stopped" in output


def start_process(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROCESS, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
