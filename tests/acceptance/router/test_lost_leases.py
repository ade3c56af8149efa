"""A router that loses its lease aborts the runs that it has no capacity for, and charges no attempt."""

import signal
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from urllib.parse import urlsplit

import pytest
from redis.asyncio import Redis

from beacon_contracts.inference import InferenceState
from tests.acceptance.router.ledger_checks import Call, merged, most_at_once
from tests.fixtures.gpusim import Gpusim, start_gpusim
from tests.fixtures.router import Router, backend, router_config, start_router
from tests.fixtures.tcp_proxy import TcpProxy, tcp_proxy
from tests.fixtures.waiting import until

CAP = 4
LEASE_S = 2.0


class Pair:
    """Two routers that share a cap; `proxied` reaches Redis through a proxy. All runs last until released."""

    def __init__(self, gpu: Gpusim, proxied: Router, other: Router, proxy: TcpProxy) -> None:
        self.gpu = gpu
        self.proxied = proxied
        self.other = other
        self.proxy = proxy

    async def fill(self) -> None:
        """The first router uses the whole cap; the other router has as many waiting requests."""
        for number in range(CAP):
            await self.proxied.submit(f"first-{number}", prefer="respond-async")
        await self.gpu.wait_running(CAP)
        for number in range(CAP):
            await self.other.submit(f"other-{number}", prefer="respond-async")

    async def other_runs(self) -> None:
        async def all_started() -> bool:
            calls = await self.gpu.ledger()
            return len([call for call in calls if call["request_id"].startswith("other")]) == CAP

        await until(all_started, "the other router has the whole cap")

    async def finish(self) -> list[Call]:
        """End the runs: every request completes with one attempt. Returns the ledger."""
        await self.gpu.release()
        for name, router in (("first", self.proxied), ("other", self.other)):
            for number in range(CAP):
                view = await router.get(f"{name}-{number}", prefer="wait=60")
                assert view.state is InferenceState.COMPLETED
                assert len(view.tries) == 1
        return await merged(self.gpu)


@pytest.fixture
async def pair(redis_url: str) -> AsyncIterator[Pair]:
    address = urlsplit(redis_url)
    assert address.port is not None
    async with AsyncExitStack() as running:
        gpu = await running.enter_async_context(
            start_gpusim(region="US", slots=10, default_load=0, default_run=0)
        )
        proxy = await running.enter_async_context(tcp_proxy(address.port))
        config = router_config(
            {"us-1": backend("US", gpu.url, slots=10, group="modal")},
            groups={"modal": CAP},
            slot_lease_s=LEASE_S,
        )
        through_proxy = redis_url.replace(f":{address.port}", f":{proxy.port}")
        proxied = await running.enter_async_context(start_router(config, REDIS_URL=through_proxy))
        other = await running.enter_async_context(start_router(config, REDIS_URL=redis_url))
        await gpu.hold()
        yield Pair(gpu, proxied, other, proxy)


async def test_a_resumed_router_aborts_runs_whose_slots_others_have(pair: Pair) -> None:
    await pair.fill()

    pair.proxied.process.send(signal.SIGSTOP)
    try:
        await pair.other_runs()
    finally:
        pair.proxied.process.send(signal.SIGCONT)
    await pair.gpu.wait_running(CAP)

    aborted = [call for call in await merged(pair.gpu) if call["ended"] is not None]
    assert {call["request_id"] for call in aborted} == {f"first-{number}" for number in range(CAP)}
    calls = await pair.finish()
    assert most_at_once(call for call in calls if call not in aborted) <= CAP


async def test_a_resumed_router_keeps_runs_whose_slots_are_still_its_own(pair: Pair) -> None:
    for number in range(CAP):
        await pair.proxied.submit(f"first-{number}", prefer="respond-async")
    await pair.gpu.wait_running(CAP)

    pair.proxied.process.send(signal.SIGSTOP)
    frozen_at = time.monotonic()

    async def lease_over() -> bool:
        return time.monotonic() > frozen_at + LEASE_S * 1.5

    await until(lease_over, "the lease is over")
    pair.proxied.process.send(signal.SIGCONT)
    await pair.gpu.release()

    for number in range(CAP):
        assert (await pair.proxied.get(f"first-{number}", prefer="wait=60")).state.value == "completed"
    assert len(await merged(pair.gpu)) == CAP, "each ran once"


async def test_a_router_without_redis_aborts_before_others_start(pair: Pair) -> None:
    await pair.fill()

    await pair.proxy.cut()
    await pair.other_runs()
    await pair.proxy.restore()

    assert most_at_once(await merged(pair.gpu)) <= CAP
    assert most_at_once(await pair.finish()) <= CAP


async def test_runs_longer_than_the_lease_keep_their_capacity(pair: Pair) -> None:
    await pair.fill()
    began = time.monotonic()

    async def three_leases_over() -> bool:
        return time.monotonic() > began + LEASE_S * 3

    await until(three_leases_over, "three leases are over")
    assert most_at_once(await merged(pair.gpu)) == CAP
    assert most_at_once(await pair.finish()) <= CAP


async def test_an_emptied_redis_grants_nothing_that_is_in_use(pair: Pair, redis_url: str) -> None:
    """The holder sends nothing for most of its lease after the flush and keeps its slots."""
    await pair.fill()

    pair.proxied.process.send(signal.SIGSTOP)
    frozen_at = time.monotonic()
    async with Redis.from_url(redis_url) as admin:
        await admin.flushdb()

    async def lease_nearly_over() -> bool:
        return time.monotonic() > frozen_at + LEASE_S * 0.6

    await until(lease_nearly_over, "the lease is nearly over")
    pair.proxied.process.send(signal.SIGCONT)

    assert most_at_once(await pair.finish()) <= CAP
