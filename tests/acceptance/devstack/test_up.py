"""`make up` and `make demo` on a terminal."""

import asyncio
import json
import os
import signal
import socket
import stat
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from beacon_devstack.home import Home
from beacon_devstack.settings import StackSettings
from beacon_devstack.stack import Stack
from tests.fixtures.forked_child import ForkedChild
from tests.fixtures.scratch import scratch_path
from tests.fixtures.stack import ANY_FREE, NOT_FOR_A_STACK
from tests.fixtures.waiting import WAIT_TIMEOUT_S, until

pytestmark = pytest.mark.stack

PARTS = {"runner", "router", "gpusim-us", "gpusim-eu", "gpusim-asia", "postgres", "redis"}
KEYS = {"runner_url", "router_url", "portal_url", "user_key", "admin_key", "service_token", "config_path"}


@pytest.fixture
def home() -> Iterator[Path]:
    with scratch_path() as path:
        yield path / "a home with späces"


class Up:
    """`python -m beacon_devstack <command>` and what it leaves in its home."""

    def __init__(self, process: asyncio.subprocess.Process, home: Path) -> None:
        self.process = process
        self.home = home

    @property
    def credentials(self) -> dict[str, str]:
        read: dict[str, str] = json.loads((self.home / "credentials.json").read_text(encoding="utf-8"))
        return read

    @property
    def pids(self) -> dict[str, int]:
        files = (self.home / "run").glob("*.pid")
        return {file.stem: int(file.read_text(encoding="ascii")) for file in files}

    async def ready(self) -> None:
        """By the lock file, because the credentials can be those of a killed run."""
        await until(lambda: self._serves() or self.process.returncode is not None, "it serves")
        assert self.process.returncode is None, await self.output() + self._logs()

    def _logs(self) -> str:
        logs = sorted((self.home / "logs").glob("*.log"))
        return "".join(f"--- {log.name}\n{log.read_text(errors='replace')[-2000:]}\n" for log in logs)

    def _serves(self) -> bool:
        try:
            lock = json.loads((self.home / "lock").read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return False
        return bool(lock.get("pid") == self.process.pid and "portal_url" in lock)

    async def output(self) -> str:
        assert self.process.stdout is not None
        return (await self.process.stdout.read()).decode()

    async def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return await self.process.wait()


@asynccontextmanager
async def started(home: Path, command: str = "up", **environment: str) -> AsyncIterator[Up]:
    kept = {name: value for name, value in os.environ.items() if name not in NOT_FOR_A_STACK}
    ports = {"BEACON_RUNNER_PORT": "0", "BEACON_ROUTER_PORT": "0"}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "beacon_devstack",
        command,
        env={**kept, **ports, "BEACON_HOME": str(home), **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        limit=2**24,
    )
    try:
        yield Up(process, home)
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()


async def until_gone(pids: dict[str, int]) -> None:
    await until(lambda: not any(alive(pid) for pid in pids.values()), "all of it is gone")


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def submit(credentials: dict[str, str], **changes: Any) -> str:
    body = {"kind": "generation", "model": "llama3.2-1b", "prompt": "hello", "region": "EU", **changes}
    async with httpx.AsyncClient(base_url=credentials["runner_url"], timeout=WAIT_TIMEOUT_S) as http:
        answer = await http.post("/api/v1/jobs", json=body, headers=bearer(credentials["user_key"]))
    assert answer.status_code == 202, answer.text
    return str(answer.json()["job_id"])


async def finished(credentials: dict[str, str], job_id: str) -> dict[str, Any]:
    async with httpx.AsyncClient(base_url=credentials["runner_url"], timeout=WAIT_TIMEOUT_S) as http:

        async def over() -> dict[str, Any] | None:
            answer = await http.get(f"/api/v1/jobs/{job_id}", headers=bearer(credentials["user_key"]))
            job: dict[str, Any] = answer.json()
            return None if job["status"] in ("queued", "processing", "retrying") else job

        return await until(over, "the job is over")


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


async def test_up_serves_until_sigterm_and_leaves_no_process(home: Path) -> None:
    async with started(home) as up:
        await up.ready()
        credentials = up.credentials
        assert set(credentials) == KEYS
        assert stat.S_IMODE((home / "credentials.json").stat().st_mode) == 0o600
        assert set(up.pids) == PARTS
        await demand_answers(credentials)
        await demand_that_a_second_up_says_where_the_first_is(up)
        await demand_that_a_demo_uses_the_running_system(up)
        pids = up.pids
        assert await up.stop() == 0
        await until_gone(pids)
        assert not (home / "credentials.json").exists()
        assert not up.pids
        said = await up.output()
    assert credentials["portal_url"] in said
    assert credentials["user_key"] in said


async def demand_answers(credentials: dict[str, str]) -> None:
    async with httpx.AsyncClient(timeout=WAIT_TIMEOUT_S) as http:
        for url in ("runner_url", "router_url"):
            assert (await http.get(f"{credentials[url]}/readyz")).status_code == 200
        assert (await http.get(credentials["portal_url"])).status_code == 200


async def demand_that_a_second_up_says_where_the_first_is(up: Up) -> None:
    async with started(up.home) as second:
        assert await second.process.wait() == 1
        said = await second.output()
    assert "already running" in said
    assert up.credentials["portal_url"] in said
    assert str(up.process.pid) in said


async def demand_that_a_demo_uses_the_running_system(up: Up) -> None:
    async with started(up.home, "demo") as demo:
        said = await demo.output()
        assert await demo.process.wait() == 0, said
    assert f"already running at {up.credentials['portal_url']}" in said
    assert up.process.returncode is None


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child of its parent's death")
async def test_a_killed_up_ends_its_children_and_the_next_start_has_keys_and_jobs(home: Path) -> None:
    async with started(home) as up:
        await up.ready()
        before = up.credentials
        done = await finished(before, await submit(before))
        assert done["status"] == "completed"
        under_way = await submit(before, model="flux")
        pids = up.pids
        await up.stop(signal.SIGKILL)
        await until_gone(pids)
    async with started(home) as up:
        await up.ready()
        after = up.credentials
        keys = ("user_key", "admin_key", "service_token")
        assert [after[key] for key in keys] == [before[key] for key in keys]
        assert (await finished(after, done["job_id"]))["executions"] == done["executions"]
        assert (await finished(after, under_way))["status"] == "completed"
        assert await up.stop(signal.SIGINT) == 0


async def test_a_process_that_dies_stops_the_others_and_is_named_with_its_log(home: Path) -> None:
    async with started(home) as up:
        await up.ready()
        pids = up.pids
        os.kill(pids["router"], signal.SIGKILL)
        assert await up.process.wait() == 1
        await until_gone(pids)
        said = await up.output()
    assert "router: it ended unexpectedly" in said
    assert str(home / "logs" / "router.log") in said


@pytest.mark.parametrize(
    ("setting", "component"),
    [
        ("BEACON_RUNNER_PORT", "runner"),
        ("BEACON_ROUTER_PORT", "router"),
        ("BEACON_REDIS_PORT", "redis"),
        ("BEACON_POSTGRES_PORT", "postgres"),
    ],
)
async def test_a_taken_port_gives_a_clear_error(home: Path, setting: str, component: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        port = stranger.getsockname()[1]
        async with started(home, **{setting: str(port)}) as up:
            assert await up.process.wait() == 1
            said = await up.output()
    assert f"{component}: port {port} on 127.0.0.1 is taken" in said
    assert setting in said
    assert "Traceback" not in said


async def test_an_interrupt_while_starting_stops_in_order(home: Path) -> None:
    async with started(home) as up:
        await until(lambda: "gpusim-us" in up.pids, "the first GPU is started")
        pids = up.pids
        assert await up.stop(signal.SIGINT) == 0
        await until_gone(pids)
        assert "Traceback" not in await up.output()


async def test_a_changed_configuration_applies_at_the_next_start(home: Path, tmp_path: Path) -> None:
    own = tmp_path / "beacon.toml"
    for model in ("first", "second"):
        own.write_text(
            f'[backends.gpu]\ndialect = "openai"\nurl = "http://127.0.0.1:9/v1"\nmodels = ["{model}"]\n',
            encoding="utf-8",
        )
        environment = {**os.environ, **ANY_FREE, "BEACON_CONFIG": str(own)}
        settings = StackSettings.from_environment(
            {name: value for name, value in environment.items() if name not in NOT_FOR_A_STACK}
        )
        async with Stack(Home.at(home), settings, make_child=ForkedChild) as stack:
            url, key = stack.credentials.runner_url, stack.credentials.user_key
            async with httpx.AsyncClient(base_url=url, timeout=WAIT_TIMEOUT_S) as http:
                answer = await http.get("/api/v1/models", headers=bearer(key))
            assert [one["id"] for one in answer.json()["models"]] == [model]


async def test_an_invalid_configuration_is_named(home: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "beacon.toml"
    wrong.write_text("[regions.US]\n[regionz.EU]\n", encoding="utf-8")
    async with started(home, BEACON_CONFIG=str(wrong)) as up:
        assert await up.process.wait() == 1
        assert "regionz" in await up.output()


async def test_the_demo_prints_27_answers_and_exits(home: Path) -> None:
    async with started(home, "demo", COLUMNS="200") as demo:
        said = await demo.output()
        assert await demo.process.wait() == 0, said
    for region in ("US", "EU", "ASIA"):
        for model in ("llama3.2-1b", "qwen2.5-1.5b", "mistral-7b"):
            rows = [line for line in said.splitlines() if model in line and f" {region} " in line]
            assert len(rows) == 3, said


async def test_a_demo_without_its_gpus_fails_and_names_the_log(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        unused_port = probe.getsockname()[1]
    names = ("US_1", "US_STEPS", "EU_1", "ASIA_1")
    dead = {f"BEACON_BACKEND_{name}_URL": f"http://127.0.0.1:{unused_port}/v1" for name in names}
    async with started(home, "demo", BEACON_DEMO_TIMEOUT_S="3", **dead) as demo:
        said = await demo.output()
        assert await demo.process.wait() == 1
    assert str(home / "logs") in said
