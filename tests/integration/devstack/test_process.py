"""The life of one process of the system, shown with the simulated GPU."""

import os
import socket
from pathlib import Path

import httpx
import psutil
import pytest

from beacon_devstack.errors import DevstackError
from beacon_devstack.home import Home
from beacon_devstack.processes.process import ProcessSpec, ServiceProcess, run_to_end
from beacon_devstack.processes.stale_processes import end_recorded_processes
from beacon_lifecycle import SystemClock
from tests.fixtures.waiting import WAIT_TIMEOUT_S


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home.at(tmp_path / "a home")


@pytest.fixture
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def gpusim(home: Home, port: int, **settings: str) -> ServiceProcess:
    environment = {**os.environ, "GPUSIM_PORT": str(port), **settings}
    spec = ProcessSpec("gpusim-us", "beacon_gpusim", environment, url=f"http://127.0.0.1:{port}")
    return ServiceProcess(spec, home, clock=SystemClock())


async def test_a_process_is_ready_after_start_and_gone_after_stop(home: Home, port: int) -> None:
    process = gpusim(home, port)
    await process.start()
    async with httpx.AsyncClient(base_url=process.url, timeout=WAIT_TIMEOUT_S) as http:
        assert (await http.get("/healthz")).status_code == 200
    await process.stop()
    await process.stop()
    assert process.child.returncode == 0
    assert not psutil.pid_exists(process.child.pid)
    assert "listening" in home.log_of("gpusim-us").read_text(encoding="utf-8")


async def test_a_killed_process_is_reported_with_its_log_and_can_be_restarted(home: Home, port: int) -> None:
    process = gpusim(home, port)
    await process.start()
    await process.kill()
    with pytest.raises(DevstackError, match="gpusim-us: it ended unexpectedly") as caught:
        await process.wait()
    assert caught.value.log == home.log_of("gpusim-us")
    await process.start()
    await process.stop()


async def test_a_process_that_cannot_start_reports_its_last_log_line(home: Home, port: int) -> None:
    process = gpusim(home, port, BEACON_CONFIG=str(home.path / "missing.toml"))
    with pytest.raises(DevstackError, match=r"ended while starting .*missing\.toml: there is no such file"):
        await process.start()


async def test_a_failed_one_off_command_is_an_error(home: Home) -> None:
    spec = ProcessSpec("migrate", "beacon_runner", {"PATH": os.defpath}, ("migrate",))
    with pytest.raises(DevstackError, match=r"migrate: it failed \(exit code 2\)") as caught:
        await run_to_end(spec, home)
    assert caught.value.log == home.log_of("migrate")


async def test_only_processes_of_a_killed_run_are_ended(home: Home, port: int) -> None:
    process = gpusim(home, port)
    await process.start()
    stranger = home.run / "stranger.pid"
    stranger.write_text(f"{os.getpid()}\n", encoding="ascii")
    os.utime(stranger, (1, 1))  # older than this process: the pid belonged to another process then
    assert await end_recorded_processes(home.run, marker="beacon_gpusim") == 1
    assert await process.child.wait() == 0
    assert not list(home.run.iterdir())
