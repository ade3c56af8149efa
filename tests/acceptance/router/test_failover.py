"""Regions that die and are restored, retries in other regions, cancellations that free a slot at once."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

from beacon_contracts.inference import InferenceState, InferenceView
from tests.acceptance.router.ledger_checks import merged, of, refused
from tests.fixtures.gpusim import Gpusim, start_gpusim
from tests.fixtures.router import Router, backend, router_config, start_router
from tests.fixtures.waiting import until

INSTANT = {"default_load": 0, "default_run": 0, "loaded_models": 4}


async def test_movable_work_leaves_a_dead_region_and_pinned_work_waits() -> None:
    async with AsyncExitStack() as running:
        us = await running.enter_async_context(start_gpusim(region="US", slots=2, **INSTANT))
        eu = await running.enter_async_context(start_gpusim(region="EU", slots=2, **INSTANT))
        router = await running.enter_async_context(start_router(two_regions(us, eu, health_every_s=0.2)))
        await us.add_fault(kind="hang")
        movable = [asyncio.ensure_future(router.infer(f"movable-{number}")) for number in range(4)]
        await us.wait_running(2)
        for number in range(3):
            await router.submit(f"pinned-{number}", failover="pinned", prefer="respond-async")

        us.process.kill()
        views = await asyncio.gather(*movable)

        assert {view.state for view in views} == {InferenceState.COMPLETED}
        assert {(view.requested_region, view.actual_region) for view in views} == {("US", "EU")}
        ran = await merged(eu)
        assert sorted(call["request_id"] for call in ran) == [f"movable-{number}" for number in range(4)]
        waiting = [await router.get(f"pinned-{number}") for number in range(3)]
        assert {view.state for view in waiting} == {InferenceState.QUEUED}
        assert all(view.waiting_for and "us-1" in view.waiting_for for view in waiting)

        port = us.url.rpartition(":")[2]
        await running.enter_async_context(start_gpusim(region="US", slots=2, port=port, **INSTANT))
        done = await asyncio.gather(*(finished(router, f"pinned-{number}") for number in range(3)))
        assert {(view.state.value, view.actual_region) for view in done} == {("completed", "US")}


async def test_a_pinned_run_that_loses_its_region_is_finished_there() -> None:
    async with AsyncExitStack() as running:
        us = await running.enter_async_context(start_gpusim(region="US", slots=2, **INSTANT))
        eu = await running.enter_async_context(start_gpusim(region="EU", slots=2, **INSTANT))
        router = await running.enter_async_context(start_router(two_regions(us, eu, health_every_s=0.2)))
        await us.add_fault(kind="hang")
        pinned = asyncio.ensure_future(router.infer("pinned", failover="pinned"))
        await us.wait_running(1)

        us.process.kill()
        port = us.url.rpartition(":")[2]
        again = await running.enter_async_context(start_gpusim(region="US", slots=2, port=port, **INSTANT))
        view = await pinned

        assert (view.state, view.actual_region) == (InferenceState.COMPLETED, "US")
        assert [attempt.outcome for attempt in view.tries] == ["failed", "completed"]
        assert len(await again.ledger()) == 1
        assert await eu.ledger() == []


async def test_an_idle_region_starts_anothers_retry_when_it_is_due() -> None:
    async with AsyncExitStack() as running:
        us = await running.enter_async_context(start_gpusim(region="US", slots=1, **INSTANT))
        eu = await running.enter_async_context(start_gpusim(region="EU", slots=1, **INSTANT))
        router = await running.enter_async_context(start_router(two_regions(us, eu)))
        await us.add_fault(kind="error", status=503, next=1)

        view = await router.infer("retried", region="US")

        (failed,), (retried,) = of(await us.ledger(), "retried"), of(await eu.ledger(), "retried")
        assert (view.requested_region, view.actual_region) == ("US", "EU")
        assert (failed["outcome"], retried["outcome"]) == ("error", "completed")
        # How soon after it is due: tests/unit/router in virtual time, benchmarks/router as a figure.
        assert view.tries[1].timing.queued_s > 1.99


async def test_a_retry_returns_to_its_idle_region_while_the_other_is_busy() -> None:
    async with AsyncExitStack() as running:
        us = await running.enter_async_context(start_gpusim(region="US", slots=2, **INSTANT))
        eu = await running.enter_async_context(start_gpusim(region="EU", slots=2, **INSTANT))
        router = await running.enter_async_context(start_router(two_regions(us, eu)))
        await us.hold()
        for number in range(2):
            await router.submit(f"busy-{number}", region="US", failover="pinned", prefer="respond-async")
        await us.wait_running(2)
        await eu.add_fault(kind="error", status=503, next=1)

        view = await router.infer("retried", region="EU")

        assert [(attempt.region, attempt.outcome) for attempt in view.tries] == [
            ("EU", "failed"),
            ("EU", "completed"),
        ]
        await us.release()


async def test_the_third_attempt_uses_the_region_that_was_not_tried() -> None:
    async with AsyncExitStack() as running:
        names = ("US", "EU", "ASIA")
        gpus = {
            name: await running.enter_async_context(start_gpusim(region=name, slots=1, **INSTANT))
            for name in names
        }
        backends = {f"{name.lower()}-1": backend(name, gpus[name].url, slots=1) for name in names}
        router = await running.enter_async_context(start_router(router_config(backends)))
        for name in ("US", "EU"):
            await gpus[name].add_fault(kind="error", status=503)

        view = await router.infer("retried", region="US")

        assert (view.state, view.actual_region) == (InferenceState.COMPLETED, "ASIA")
        assert len({attempt.region for attempt in view.tries}) == len(view.tries)


async def test_a_cancelled_run_frees_its_slot_for_the_next_at_once() -> None:
    async with AsyncExitStack() as running:
        us = await running.enter_async_context(start_gpusim(region="US", slots=1, **INSTANT))
        config = router_config({"us-1": backend("US", us.url, slots=1)})
        router = await running.enter_async_context(start_router(config))
        for number in range(10):
            hog, following = f"hog-{number}", f"next-{number}"
            await us.add_fault(kind="hang", next=1)
            await router.submit(hog, prefer="respond-async")
            await us.wait_running(1)
            waiting = asyncio.ensure_future(router.infer(following))
            await in_line(router, 1)

            await router.cancel(hog)
            view = await waiting

            (cancelled,), (ran,) = of(await us.ledger(), hog), of(await us.ledger(), following)
            assert (cancelled["outcome"], ran["outcome"]) == ("aborted", "completed")
            assert ran["arrived"] >= cancelled["ended"]
            assert len(view.tries) == 1
        assert await refused(us) == 0


async def test_a_cold_start_behind_a_proxy_with_a_timeout_is_no_failure() -> None:
    async with AsyncExitStack() as running:
        slow = {"default_load": 0.5, "default_run": 0, "proxy_timeout_s": 0.2}
        us = await running.enter_async_context(start_gpusim(region="US", slots=1, **slow))
        config = router_config(
            {"us-1": backend("US", us.url, slots=1)},
            models={"m": {"expected_load_s": 300, "load_timeout_s": 300, "run_timeout_s": 300}},
        )
        router = await running.enter_async_context(start_router(config))
        await us.hold()
        response = asyncio.ensure_future(router.infer("cold"))
        await us.wait_running(1)
        assert (await router.get("cold")).state is InferenceState.WARMING
        await us.release()

        view = await response

        assert view.state is InferenceState.COMPLETED
        assert view.timing.load_s > slow["proxy_timeout_s"]  # and no call was cut off
        assert [call["outcome"] for call in await us.ledger()] == ["completed"]


async def test_an_empty_answer_is_a_success() -> None:
    async with AsyncExitStack() as running:
        us = await running.enter_async_context(start_gpusim(region="US", slots=1, **INSTANT))
        config = router_config({"us-1": backend("US", us.url, slots=1)})
        router = await running.enter_async_context(start_router(config))
        await us.add_fault(kind="empty", next=1)

        view = await router.infer("empty")

        assert (view.state, view.output, view.failure) == (InferenceState.COMPLETED, "", None)


def two_regions(us: Gpusim, eu: Gpusim, **router: Any) -> str:
    backends = {"us-1": backend("US", us.url, slots=2), "eu-1": backend("EU", eu.url, slots=2)}
    return router_config(backends, **router)


async def finished(router: Router, request_id: str) -> InferenceView:
    view = await router.get(request_id, prefer="wait=90")
    assert view.state.terminal, view
    return view


async def in_line(router: Router, count: int) -> None:
    async def seen() -> bool:
        return bool((await router.queues())["waiting"] == count)

    await until(seen, f"{count} wait")
