"""A stopping router refuses new work, answers all waiting requests and lets runs end within the grace."""

import asyncio
import signal

import pytest

from tests.fixtures.gpusim import start_gpusim
from tests.fixtures.router import backend, router_config, start_router
from tests.fixtures.waiting import WAIT_TIMEOUT_S, until, within_timeout
from tests.integration.router.raw_server import OK, Connection, server_that


async def test_sigterm_completes_runs_and_answers_waiting_requests() -> None:
    arrived, finish = asyncio.Event(), asyncio.Event()

    async def gpu(connection: Connection) -> None:
        while line := await connection.request():
            if line.startswith("post"):
                arrived.set()
                await finish.wait()
            await connection.send(OK)

    async with server_that(gpu) as server:
        config = router_config({"us-1": backend("US", server.url, slots=1)}, stop_grace_s=WAIT_TIMEOUT_S)
        async with start_router(config) as router, within_timeout("the router stops as it should"):
            running = asyncio.ensure_future(router.submit("running"))
            await arrived.wait()
            waiting = asyncio.ensure_future(router.submit("waiting"))

            async def in_line() -> bool:
                return bool((await router.queues())["waiting"] == 1)

            await until(in_line, "one waits")
            router.process.send(signal.SIGTERM)
            refused_waiter = await waiting

            assert (refused_waiter.status_code, refused_waiter.json()["code"]) == (503, "router_stopping")
            assert int(refused_waiter.headers["retry-after"]) >= 1
            assert (await router.http.get("/readyz")).status_code == 503
            late = await router.submit("late")
            assert (late.status_code, late.json()["code"]) == (503, "router_stopping")
            assert int(late.headers["retry-after"]) >= 1
            finish.set()
            finished = await running
            assert (finished.status_code, finished.json()["state"]) == (200, "completed")
            assert await asyncio.to_thread(router.process.wait_exit) == 0


async def test_a_run_that_takes_longer_than_the_grace_is_ended() -> None:
    async with start_gpusim(region="US", slots=1, default_load=0, default_run=60) as gpu:
        config = router_config({"us-1": backend("US", gpu.url, slots=1)}, stop_grace_s=0.5)
        async with start_router(config) as router:
            running = asyncio.ensure_future(router.submit("endless"))
            await gpu.wait_running(1)
            router.process.send(signal.SIGTERM)

            answer = await running
            assert (answer.status_code, answer.json()["code"]) == (503, "router_stopping")
            assert await asyncio.to_thread(router.process.wait_exit) == 0
        await gpu.wait_running(0)


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({"BEACON_SERVICE_TOKEN": ""}, "BEACON_SERVICE_TOKEN"),
        ({"BEACON_CONFIG": "nowhere.toml"}, "there is no such file"),
    ],
)
async def test_a_missing_setting_is_named_at_the_start(env: dict[str, str], words: str) -> None:
    with pytest.raises(RuntimeError, match=words):
        async with start_router(router_config({"us-1": backend("US", "http://127.0.0.1:9")}), **env):
            pass
