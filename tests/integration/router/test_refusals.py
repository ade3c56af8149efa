"""Refused requests: status, reason, Retry-After."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from tests.fixtures.gpusim import start_gpusim
from tests.fixtures.router import Router, backend, router_config, start_router
from tests.fixtures.waiting import until

INSTANT = {"default_load": 0, "default_run": 0}


async def test_a_full_queue_and_full_memory_are_429() -> None:
    async with AsyncExitStack() as running:
        gpu = await running.enter_async_context(start_gpusim(region="US", slots=1, **INSTANT))
        config = router_config({"us-1": backend("US", gpu.url, slots=1)}, queue_size=2, held_bytes=10_000)
        router = await running.enter_async_context(start_router(config))
        await gpu.add_fault(kind="hang", next=1)
        for number in range(2):
            await router.submit(f"r-{number}", prefer="respond-async")

        heavy = await router.submit("heavy", given={"prompt": "x" * 10_000}, prefer="respond-async")
        await router.submit("r-2", prefer="respond-async")
        full = await router.submit("r-3", prefer="respond-async")

        assert (heavy.status_code, heavy.json()["code"]) == (429, "memory_full")
        assert (full.status_code, full.json()["code"]) == (429, "queue_full")
        for answer in (heavy, full):
            assert int(answer.headers["retry-after"]) >= 1
            assert answer.json()["retry_after_s"] >= 1
            assert answer.json()["detail"]
        queues = await router.queues()
        assert (queues["waiting"], queues["running"]) == (2, 1)
        assert queues["held_bytes"] < 10_000


async def test_failing_backends_are_503() -> None:
    async with failing(breaker_open_s=3600) as router:
        assert await breaker(router) == "open"

        refused = await router.submit("too-soon")
        assert (refused.status_code, refused.json()["code"]) == (503, "backends_down")
        assert "us-1" in refused.json()["detail"]
        assert int(refused.headers["retry-after"]) >= 1


async def test_failing_backends_are_used_again_when_a_probe_succeeds() -> None:
    async with failing(breaker_open_s=0.1) as router:

        async def half_open() -> bool:
            return await breaker(router) == "half_open"

        await until(half_open, "the breaker lets a probe through")
        assert (await router.infer("probe")).state.value == "completed"
        assert await breaker(router) == "closed"


async def test_an_unreachable_backend_is_detected_at_once() -> None:
    async with AsyncExitStack() as running:
        gpu = await running.enter_async_context(start_gpusim(region="US", slots=2, **INSTANT))
        config = router_config({"us-1": backend("US", gpu.url, slots=2)}, attempts=1)
        router = await running.enter_async_context(start_router(config))
        await router.infer("before")

        gpu.process.kill()
        lost = await router.infer("lost")

        assert lost.failure is not None
        assert (lost.failure.stage.value, lost.failure.retryable) == ("transport", True)

        async def down() -> bool:
            queues = await router.queues()
            return bool(queues["regions"]["US"]["backends"][0]["breaker"]["health_check"] == "down")

        await until(down, "the health check has looked")
        assert (await router.submit("refused")).json()["code"] == "backends_down"


@asynccontextmanager
async def failing(*, breaker_open_s: float) -> AsyncIterator[Router]:
    """A router whose only backend has an open breaker and works again."""
    async with start_gpusim(region="US", slots=2, **INSTANT) as gpu:
        config = router_config(
            {"us-1": backend("US", gpu.url, slots=2)},
            attempts=1,
            breaker_failures=3,
            breaker_open_s=breaker_open_s,
        )
        async with start_router(config) as router:
            await gpu.add_fault(kind="error", status=503, next=3)
            for number in range(3):
                assert (await router.infer(f"failing-{number}")).state.value == "failed"
            yield router


async def breaker(router: Router) -> str:
    queues = await router.queues()
    return str(queues["regions"]["US"]["backends"][0]["breaker"]["state"])
