"""Limits that change while two routers share them: runs end, and none starts above the new number."""

import tomllib
from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.acceptance.router.ledger_checks import Call, merged, refused
from tests.fixtures.gpusim import Gpusim, start_gpusim
from tests.fixtures.router import Router, backend, router_config, start_router
from tests.fixtures.waiting import until

LARGE, SMALL, EACH = 4, 2, 6

Config = Callable[[Gpusim, int], str]


def with_limit(of_backend: Callable[[int], Any], of_router: Callable[[int], Any]) -> Config:
    return lambda gpu, limit: router_config(
        {"us-1": backend("US", gpu.url, **{"slots": 10, **of_backend(limit)})}, **of_router(limit)
    )


LIMITS: dict[str, Config] = {
    "cap of a group": with_limit(lambda _: {"group": "g"}, lambda limit: {"groups": {"g": limit}}),
    "slots of a backend": with_limit(lambda limit: {"slots": limit}, lambda _: {}),
    "concurrency of a region": with_limit(
        lambda _: {}, lambda limit: {"regions": {"US": {"concurrency": limit}}}
    ),
    "limit of a model": with_limit(lambda _: {}, lambda limit: {"models": {"m": {"limit": limit}}}),
}


async def put(revision: int, config: str, *routers: Router) -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=revision)
    body = {"revision": revision, "created_at": moment.isoformat(), "document": tomllib.loads(config)}
    for router in routers:
        view = (await router.http.put("/config", json=body)).json()
        assert (view["revision"], view["errors"]) == (revision, [])


def running_at(calls: list[Call], moment: float) -> int:
    return sum(
        call["arrived"] <= moment and (call["ended"] is None or call["ended"] > moment) for call in calls
    )


@pytest.mark.parametrize("what", LIMITS)
async def test_a_limit_shrinks_and_grows_under_two_routers(redis_url: str, what: str) -> None:
    config = LIMITS[what]
    async with AsyncExitStack() as running:
        gpu = await running.enter_async_context(
            start_gpusim(region="US", slots=10, default_load=0, default_run=0)
        )
        routers = [
            await running.enter_async_context(start_router(config(gpu, LARGE), REDIS_URL=redis_url))
            for _ in range(2)
        ]
        await gpu.hold()
        requests = [
            (router, f"{name}-{number}")
            for number in range(EACH)
            for name, router in zip("ab", routers, strict=True)
        ]
        for router, request in requests:
            await router.submit(request, prefer="respond-async")
        await gpu.wait_running(LARGE)

        await put(2, config(gpu, SMALL), *routers)
        for left in range(LARGE - 1, SMALL - 1, -1):
            await gpu.release(1)
            await gpu.wait_running(left)
        assert len(await merged(gpu)) == LARGE, "nothing started above the smaller limit"
        for _ in range(3):
            started = len(await merged(gpu))
            await gpu.release(1)
            await until_started(gpu, started + 1)
        calls = await merged(gpu)
        assert {running_at(calls, call["arrived"]) for call in calls[LARGE:]} == {SMALL}

        await put(
            3,
            config(gpu, 0) if what in ("cap of a group", "slots of a backend") else config(gpu, 1),
            *routers,
        )
        await put(4, config(gpu, LARGE), *reversed(routers))
        await gpu.wait_running(LARGE)
        await gpu.release()
        for router, request in requests:
            assert (await router.get(request, prefer="wait=60")).state.value == "completed"
        calls = await merged(gpu)
        assert len(calls) == len(requests), "each ran once"
        assert max(running_at(calls, call["arrived"]) for call in calls) == LARGE
        assert await refused(gpu) == 0


async def until_started(gpu: Gpusim, count: int) -> None:
    async def reached() -> bool:
        return len(await merged(gpu)) == count

    await until(reached, f"{count} runs have started")
