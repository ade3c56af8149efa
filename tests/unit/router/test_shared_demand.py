"""The slots of shared limits that a router asks for: as many as its waiting work could use."""

import asyncio
from collections.abc import Callable

import pytest

from beacon_lifecycle import ManualClock
from beacon_router.limits.port import SharedLimit, Token
from beacon_router.scheduling import (
    BackendSpec,
    GroupSpec,
    ModelSpec,
    Policy,
    RegionSpec,
    Request,
    RequestId,
    Scheduler,
    Topology,
)
from beacon_router.service.shared_capacity import SharedCapacity
from tests.fixtures.memory_limiter import MemoryLimiter

GROUP = SharedLimit("group:g", 1)
OTHER = Token("of another router")


def topology(model: str) -> Topology:
    backend = BackendSpec("us", "US", frozenset([model]), group="g")
    models = (ModelSpec("a"), ModelSpec("b"))
    return Topology((RegionSpec("US"),), (backend,), models, (GroupSpec("g", 1),))


def cancel(scheduler: Scheduler, _: SharedCapacity) -> None:
    assert scheduler.cancel(RequestId("r"))


def remove_its_model(scheduler: Scheduler, capacity: SharedCapacity) -> None:
    assert scheduler.adopt(topology("b"), Policy()) == ["r"]
    capacity.adopt(scheduler.topology)


@pytest.mark.parametrize("end", [cancel, remove_its_model])
async def test_a_slot_is_requested_only_while_work_waits(
    end: Callable[[Scheduler, SharedCapacity], None],
) -> None:
    clock = ManualClock()
    limiter, scheduler = MemoryLimiter(clock, lease_s=10.0), Scheduler(topology("a"))
    await limiter.acquire(GROUP, [OTHER])
    capacity = SharedCapacity(
        topology("a"),
        limiter,
        scheduler=scheduler,
        clock=clock,
        ready=asyncio.Event(),
        requeue=lambda _: None,
    )
    await capacity.start()

    async def wanted_after_dispatch() -> int:
        capacity.before_dispatch()
        assert scheduler.next(clock.now()) == []
        capacity.dispatched()
        await clock.advance(0.0)
        return (await limiter.renew(GROUP, [OTHER], [])).wanted

    try:
        assert await wanted_after_dispatch() == 0
        scheduler.submit(clock.now(), Request(RequestId("r"), "a", "US", rank=0))
        assert await wanted_after_dispatch() == 1
        end(scheduler, capacity)
        assert await wanted_after_dispatch() == 0
    finally:
        await capacity.stop()
