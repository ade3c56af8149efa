"""No limit is exceeded under any load, according to the ledgers of the simulated GPUs."""

import asyncio
from collections import Counter
from contextlib import AsyncExitStack

import aiohttp

from tests.acceptance.router.ledger_checks import merged, most_at_once, refused
from tests.fixtures.gpusim import Gpusim, start_gpusim
from tests.fixtures.router import TOKEN, Router, backend, router_config, start_router
from tests.fixtures.waiting import until

REGIONS = ("US", "EU", "ASIA")
REQUESTS = 2_000
CAP, SLOTS = 10, 5


async def test_two_thousand_concurrent_requests_on_ten_gpus_in_three_regions() -> None:
    async with AsyncExitStack() as running:
        gpus = [
            await running.enter_async_context(
                start_gpusim(region=region, slots=SLOTS, default_load=0, default_run=0.01, loaded_models=2)
            )
            for region in REGIONS
        ]
        config = router_config(
            {
                f"{gpu_region.lower()}-1": backend(
                    gpu_region, gpu.url, models=("m", "n"), slots=SLOTS, group="modal", loaded_models=2
                )
                for gpu_region, gpu in zip(REGIONS, gpus, strict=True)
            },
            groups={"modal": CAP},
        )
        router = await running.enter_async_context(start_router(config))

        for gpu in gpus:
            await gpu.add_fault(kind="hang", next=SLOTS)

        asking = asyncio.ensure_future(ask_all(router))
        await until(lambda: all_others_wait(router, *gpus), "as many run as may, and all others wait")
        hogs = {call["request_id"] for call in await merged(*gpus)}
        for gpu in gpus:
            await gpu.clear_faults()
        for hog in hogs:
            await router.cancel(hog)
        states = await asking

        calls = await merged(*gpus)
        assert Counter(states) == {"completed": REQUESTS - CAP, "cancelled": CAP}
        assert len(calls) == len({call["request_id"] for call in calls}) == REQUESTS
        assert await refused(*gpus) == 0
        # A cancelled call ends for the GPU a moment after the router: it is no measure of what ran at once.
        assert most_at_once(call for call in calls if call["request_id"] not in hogs) <= CAP
        for gpu in gpus:
            assert (await gpu.stats())["max_concurrent"] <= SLOTS


async def all_others_wait(router: Router, *gpus: Gpusim) -> bool:
    queues, run = await router.queues(), await merged(*gpus)
    return (queues["running"], queues["waiting"], len(run)) == (CAP, REQUESTS - CAP, CAP)


async def ask_all(router: Router) -> list[str]:
    connector = aiohttp.TCPConnector(limit=0)
    headers = {"authorization": f"Bearer {TOKEN}"}
    async with aiohttp.ClientSession(router.url, connector=connector, headers=headers) as session:
        return await asyncio.gather(*(ask(session, number) for number in range(REQUESTS)))


async def ask(session: aiohttp.ClientSession, number: int) -> str:
    body = {
        "request_id": f"r-{number}",
        "model": "mn"[number % 2],
        "region": REGIONS[number % 3],
        "tier": ("admin", "creator", "premium", "supporter", "free")[number % 5],
        "input": {"prompt": "x"},
    }
    async with session.post("/inference", json=body) as answer:
        document = await answer.json()
        assert answer.status == 200, document
        return str(document["state"])
