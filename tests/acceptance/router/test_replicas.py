"""Two routers share each limit through Redis: never exceeded, and a killed router releases its part."""

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


LIMITS: dict[str, tuple[int, dict[str, Any], dict[str, Any]]] = {
    "cap of a group": (CAP, {"group": "modal"}, {"groups": {"modal": CAP}}),
    "slots of a backend": (CAP, {"slots": CAP}, {}),
    "slots of a backend in a group": (CAP, {"slots": CAP, "group": "modal"}, {"groups": {"modal": 2 * CAP}}),
    "concurrency of a region": (CAP, {}, {"regions": {"US": {"concurrency": CAP}}}),
    "limit of a model": (CAP, {}, {"models": {"m": {"limit": CAP}}}),
    "exclusive model": (1, {}, {"models": {"m": {"exclusive": True}}}),
    "all at once": (
        1,
        {"slots": 3, "group": "modal"},
        {
            "groups": {"modal": 2},
            "regions": {"US": {"concurrency": 2}},
            "models": {"m": {"exclusive": True, "limit": 2}},
        },
    ),
}


@pytest.mark.parametrize("what", LIMITS)
async def test_replicas_never_exceed_shared_limits(redis_url: str, what: str) -> None:
    cap, of_backend, of_router = LIMITS[what]
    async with AsyncExitStack() as running:
        regions = ("US", "EU") if what == "cap of a group" else ("US",)
        gpus = [
            await running.enter_async_context(
                start_gpusim(region=region, slots=10, default_load=0, default_run=0.01)
            )
            for region in regions
        ]
        backends = {
            region: backend(region, gpu.url, **{"slots": 10, **of_backend})
            for region, gpu in zip(regions, gpus, strict=True)
        }
        config = router_config(backends, **of_router)
        a, b = [
            await running.enter_async_context(start_router(config, REDIS_URL=redis_url)) for _ in range(2)
        ]
        hogs = [f"hog-{number}" for number in range(cap)]
        await gpus[0].add_fault(kind="hang", next=cap)
        for hog in hogs:
            await a.submit(hog, prefer="respond-async")
        await gpus[0].wait_running(cap)
        for number in range(EACH):
            region = regions[number % len(regions)]
            await a.submit(f"a-{number}", region=region, prefer="respond-async")
            await b.submit(f"b-{number}", region=region, prefer="respond-async")

        assert len(await merged(*gpus)) == cap, "the others wait for those that run, at both routers"
        for hog in hogs:
            await a.cancel(hog)
        for name, router in (("a", a), ("b", b)):
            for number in range(EACH):
                assert (await router.get(f"{name}-{number}", prefer="wait=90")).state.value == "completed"

        calls = await merged(*gpus)
        assert len(calls) == cap + 2 * EACH
        # A cancelled call ends for the GPU a moment after the router: it is no measure of what ran at once.
        assert most_at_once(call for call in calls if call["request_id"] not in hogs) <= cap
        assert await refused(*gpus) == 0


async def test_slots_of_a_killed_replica_are_released(redis_url: str) -> None:
    async with AsyncExitStack() as running:
        gpu = await running.enter_async_context(
            start_gpusim(region="US", slots=10, default_load=0, default_run=0)
        )
        config = shared(gpu, slot_lease_s=2.0)
        doomed = await running.enter_async_context(start_router(config, REDIS_URL=redis_url))
        survivor = await running.enter_async_context(start_router(config, REDIS_URL=redis_url))
        await gpu.add_fault(kind="hang", next=CAP)
        for number in range(CAP):
            await doomed.submit(f"doomed-{number}", prefer="respond-async")
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


async def in_line(router: Router, count: int) -> None:
    async def seen() -> bool:
        return bool((await router.queues())["waiting"] == count)

    await until(seen, f"{count} wait")
