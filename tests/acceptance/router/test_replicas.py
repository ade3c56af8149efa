"""Two routers, one cap: shared through Redis, never exceeded, given back by one that is killed."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest

from tests.acceptance.router.ledger_checks import merged, most_at_once, refused
from tests.fixtures.gpusim import Gpusim, start_gpusim
from tests.fixtures.router import Router, backend, router_config, start_router
from tests.fixtures.waiting import until

CAP = 4
EACH = 60


@pytest.mark.parametrize("what", ["cap of a group", "slots of a backend", "slots of a backend in a group"])
async def test_replicas_never_exceed_what_they_share(redis_url: str, what: str) -> None:
    async with AsyncExitStack() as running:
        regions = ("US", "EU") if what == "cap of a group" else ("US",)
        gpus = [
            await running.enter_async_context(
                start_gpusim(region=region, slots=10, default_load=0, default_run=0.01)
            )
            for region in regions
        ]
        group = {"group": "modal"} if what == "slots of a backend in a group" else {}
        config = shared(*gpus) if what == "cap of a group" else alone(gpus[0], **group)
        a, b = [
            await running.enter_async_context(start_router(config, REDIS_URL=redis_url)) for _ in range(2)
        ]
        hogs = [f"hog-{number}" for number in range(CAP)]
        await gpus[0].add_fault(kind="hang", next=CAP)
        for hog in hogs:
            await a.ask(hog, prefer="respond-async")
        await gpus[0].wait_running(CAP)
        for number in range(EACH):
            region = regions[number % len(regions)]
            await a.ask(f"a-{number}", region=region, prefer="respond-async")
            await b.ask(f"b-{number}", region=region, prefer="respond-async")

        assert len(await merged(*gpus)) == CAP, "the others wait for those that run, at both routers"
        for hog in hogs:
            await a.cancel(hog)
        for name, router in (("a", a), ("b", b)):
            for number in range(EACH):
                assert (await router.look(f"{name}-{number}", prefer="wait=90")).state.value == "completed"

        calls = await merged(*gpus)
        assert len(calls) == CAP + 2 * EACH
        # A cancelled call ends for the GPU a moment after the router: it is no measure of what ran at once.
        assert most_at_once(call for call in calls if call["request_id"] not in hogs) <= CAP
        assert await refused(*gpus) == 0


async def test_a_killed_replica_gives_its_slots_back(redis_url: str) -> None:
    async with AsyncExitStack() as running:
        gpu = await running.enter_async_context(
            start_gpusim(region="US", slots=10, default_load=0, default_run=0)
        )
        config = shared(gpu, slot_lease_s=2.0)
        doomed = await running.enter_async_context(start_router(config, REDIS_URL=redis_url))
        survivor = await running.enter_async_context(start_router(config, REDIS_URL=redis_url))
        await gpu.add_fault(kind="hang", next=CAP)
        for number in range(CAP):
            await doomed.ask(f"doomed-{number}", prefer="respond-async")
        await gpu.wait_running(CAP)
        waiting = [asyncio.ensure_future(survivor.infer(f"waiting-{number}")) for number in range(CAP)]
        await in_line(survivor, CAP)

        doomed.process.kill()
        views = await asyncio.gather(*waiting)

        assert {view.state.value for view in views} == {"completed"}
        calls = await merged(gpu)
        assert most_at_once(calls) <= CAP
        first = min(call["arrived"] for call in calls if call["request_id"].startswith("waiting"))
        assert all(call["ended"] <= first for call in calls if call["request_id"].startswith("doomed"))


def shared(*gpus: Gpusim, **router: Any) -> str:
    backends = {
        f"{region.lower()}-1": backend(region, gpu.url, slots=10, group="modal")
        for region, gpu in zip(("US", "EU"), gpus, strict=False)
    }
    return router_config(backends, groups={"modal": CAP}, **router)


def alone(gpu: Gpusim, **group: Any) -> str:
    """A backend with fewer slots than the GPU would give, or its group would allow."""
    return router_config({"us-1": backend("US", gpu.url, slots=CAP, **group)}, groups={"modal": 2 * CAP})


async def in_line(router: Router, count: int) -> None:
    async def seen() -> bool:
        return bool((await router.queues())["waiting"] == count)

    await until(seen, f"{count} wait")
