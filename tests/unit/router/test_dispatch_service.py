"""Repeated requests, fences, kept results, refusals."""

import asyncio

import pytest

from beacon_contracts.inference import InferenceState
from beacon_router.scheduling import BackendSpec, RequestId
from beacon_router.service.errors import (
    MemoryFullError,
    NoBackendError,
    QueueFullError,
    RequestIdReusedError,
    StaleFenceError,
    StartByPassedError,
    StoppingError,
    UnknownInferenceError,
)
from beacon_router.service.inference_store import RESULT_OVERHEAD_BYTES
from tests.unit.router.dispatch_harness import dispatch_harness, failure, topology

ONE_SLOT = topology([BackendSpec("us", "US", frozenset({"m", "n"}), slots=1)])
REFUSED = failure("backend_refused", retryable=False, counts_as_failure=False, status=400)


async def test_the_same_id_joins_the_existing_run() -> None:
    async with dispatch_harness(ONE_SLOT) as harness:
        first = harness.submit("a")
        await harness.settle()
        second = harness.submit("a")
        await harness.answer("us")

        assert first is second
        assert len(harness.backends["us"].calls) == 1


async def test_a_completed_result_is_returned_for_any_fence() -> None:
    async with dispatch_harness(ONE_SLOT) as harness:
        harness.submit("a", fence=5)
        await harness.answer("us")

        for fence in (4, 5, 6):
            assert harness.submit("a", fence=fence).state is InferenceState.COMPLETED
        assert len(harness.backends["us"].calls) == 1


async def test_a_lower_fence_is_refused() -> None:
    async with dispatch_harness(ONE_SLOT) as harness:
        harness.submit("a", fence=2)

        with pytest.raises(StaleFenceError):
            harness.submit("a", fence=1)
        with pytest.raises(StaleFenceError):
            harness.service.cancel(harness.get("a").id, fence=1)
        assert harness.get("a").state is not InferenceState.CANCELLED


async def test_a_higher_fence_takes_over_a_live_inference() -> None:
    async with dispatch_harness(ONE_SLOT) as harness:
        harness.submit("a", fence=1)
        assert harness.submit("a", fence=3).fence == 3

        with pytest.raises(StaleFenceError):
            harness.submit("a", fence=2)


async def test_a_failed_inference_runs_again_for_a_higher_fence() -> None:
    async with dispatch_harness(ONE_SLOT) as harness:
        harness.submit("a", fence=1)
        await harness.fail("us", REFUSED)

        assert harness.submit("a", fence=1).state is InferenceState.FAILED
        again = harness.submit("a", fence=2)
        await harness.answer("us")

        assert again.state is InferenceState.COMPLETED
        assert len(harness.backends["us"].calls) == 2


async def test_an_inference_that_never_ran_can_be_repeated_with_its_fence() -> None:
    async with dispatch_harness(ONE_SLOT) as harness:
        harness.submit("running", timeout_s=1_000)
        late = harness.submit("a", fence=1, start_by=10)
        await harness.clock.advance(10.1)
        assert late.failure is not None
        assert late.failure.code == "start_by_passed"

        again = harness.submit("a", fence=1, start_by=1_000)
        await harness.answer("us")
        await harness.answer("us")

        assert again.state is InferenceState.COMPLETED


async def test_a_cancelled_inference_runs_again_after_its_run_ended() -> None:
    async with dispatch_harness(ONE_SLOT) as harness:
        harness.submit("a", fence=1)
        await harness.settle()
        harness.service.cancel(harness.get("a").id)
        again = harness.submit("a", fence=2)
        await harness.answer("us")

        assert [held.aborted for held in harness.backends["us"].calls] == [True, False]
        assert again.state is InferenceState.COMPLETED


async def test_a_request_that_arrives_after_its_cancel_is_refused() -> None:
    """The cancel arrives before the request of the same fence, which would run otherwise."""
    async with dispatch_harness(ONE_SLOT) as harness:
        with pytest.raises(UnknownInferenceError):
            harness.service.cancel(RequestId("a"), fence=6)
        with pytest.raises(StaleFenceError):
            harness.submit("a", fence=5)
        assert harness.submit("a", fence=6).state is not InferenceState.CANCELLED


async def test_a_cancelled_fence_does_not_rerun_an_earlier_failure() -> None:
    async with dispatch_harness(ONE_SLOT) as harness:
        harness.submit("a", fence=1)
        await harness.fail("us", REFUSED)
        cancelled = harness.service.cancel(RequestId("a"), fence=3)

        assert (cancelled.state, cancelled.fence) == (InferenceState.FAILED, 1), (
            "the result of the first fence"
        )
        with pytest.raises(StaleFenceError):
            harness.submit("a", fence=2)


async def test_a_repeated_inference_can_be_cancelled() -> None:
    async with dispatch_harness(ONE_SLOT) as harness:
        harness.submit("a", fence=1)
        await harness.settle()
        harness.service.cancel(harness.get("a").id)
        harness.submit("a", fence=2)
        harness.service.cancel(harness.get("a").id)
        await harness.settle()

        assert harness.running("us") == []
        assert harness.service.runs.waiting() == 0


async def test_an_id_cannot_be_reused_for_other_work() -> None:
    async with dispatch_harness(ONE_SLOT) as harness:
        harness.submit("a", model="m")

        with pytest.raises(RequestIdReusedError):
            harness.submit("a", model="n")


async def test_joining_with_front_moves_it_to_the_front() -> None:
    async with dispatch_harness(ONE_SLOT) as harness:
        for request in ("running", "first", "paid"):
            harness.submit(request)
        harness.submit("paid", front=True)
        await harness.answer("us")

        assert harness.running("us") == ["paid"]


async def test_all_waiters_are_notified_of_the_result() -> None:
    async with dispatch_harness(ONE_SLOT) as harness:
        inference = harness.submit("a")
        waiters = [harness.service.waiter(inference, None) for _ in range(3)]
        await harness.answer("us")

        assert all(waiter.done() for waiter in waiters)


async def test_waiters_are_notified_after_the_freed_slot_is_reassigned() -> None:
    async with dispatch_harness(ONE_SLOT) as harness:
        first, _ = harness.submit("a"), harness.submit("b")
        await harness.settle()
        runs_when_notified: list[list[str]] = []
        waiter = harness.service.waiter(first, None)
        waiter.add_done_callback(lambda _: runs_when_notified.append(harness.running("us")))
        await harness.answer("us")

        assert runs_when_notified == [["b"]]


async def test_a_wait_ends_after_its_seconds() -> None:
    async with dispatch_harness(ONE_SLOT) as harness:
        inference = harness.submit("a")
        wait = harness.service.waiter(inference, 5)
        await harness.settle()
        await harness.clock.advance(4.9)
        assert not wait.done()
        await harness.clock.advance(0.1)

        assert wait.done()
        assert not inference.done
        assert not inference.waiters


async def test_results_expire_without_further_calls() -> None:
    async with dispatch_harness(ONE_SLOT, retention_s=600) as harness:
        harness.submit("a")
        await harness.answer("us")
        await harness.clock.advance(599)
        assert harness.get("a").output == b'"done"'
        await harness.clock.advance(1)

        assert len(harness.service.store) == 0
        with pytest.raises(UnknownInferenceError):
            harness.get("a")


async def test_the_oldest_results_are_evicted_beyond_the_limit() -> None:
    each = RESULT_OVERHEAD_BYTES + 200
    async with dispatch_harness(ONE_SLOT, held_bytes=2 * 2 * each) as harness:
        for request in ("a", "b", "c"):
            harness.submit(request)
            await harness.answer("us", b"x" * 200)

        assert harness.service.store.result_bytes == 2 * each
        with pytest.raises(UnknownInferenceError):
            harness.get("a")
        assert harness.get("c").done


async def test_held_input_bytes_are_bounded() -> None:
    async with dispatch_harness(ONE_SLOT, held_bytes=1_000) as harness:
        harness.submit("a", size=600)
        with pytest.raises(MemoryFullError) as refused:
            harness.submit("b", size=600)
        assert refused.value.retry_after_s >= 1

        await harness.answer("us")
        assert harness.service.store.payload_bytes == 0
        harness.submit("b", size=600)


async def test_a_full_queue_refuses_and_holds_nothing() -> None:
    async with dispatch_harness(ONE_SLOT, queue_size=2) as harness:
        for request in ("running", "a", "b"):
            harness.submit(request)
        with pytest.raises(QueueFullError) as refused:
            harness.submit("c")

        assert refused.value.retry_after_s >= 1
        with pytest.raises(UnknownInferenceError):
            harness.get("c")


async def test_a_request_without_a_backend_is_refused() -> None:
    with_eu = topology([BackendSpec("us", "US", frozenset({"m"})), BackendSpec("eu", "EU", frozenset({"n"}))])
    async with dispatch_harness(with_eu) as harness:
        with pytest.raises(NoBackendError):
            harness.submit("a", model="n", region="US", pinned=True)
        moved = harness.submit("b", model="n", region="US")
        await harness.answer("eu")

        assert moved.actual_region == "EU"


async def test_a_request_that_cannot_be_queued_is_not_kept() -> None:
    async with dispatch_harness() as harness:
        with pytest.raises(ValueError, match="no region"):
            harness.submit("a", region="MARS")
        with pytest.raises(UnknownInferenceError):
            harness.get("a")


async def test_a_request_after_its_start_by_is_refused() -> None:
    async with dispatch_harness(ONE_SLOT) as harness:
        await harness.clock.advance(100)
        with pytest.raises(StartByPassedError):
            harness.submit("a", start_by=99)


async def test_an_inference_past_start_by_ends_without_a_run() -> None:
    async with dispatch_harness(ONE_SLOT) as harness:
        harness.submit("running", timeout_s=1_000)
        inference = harness.submit("a", start_by=10)
        wait = harness.service.waiter(inference, None)
        await harness.clock.advance(10.1)

        assert wait.done()
        assert inference.failure is not None
        assert inference.failure.code == "start_by_passed"
        assert len(harness.backends["us"].calls) == 1


async def test_a_stop_refuses_new_answers_waiting_and_completes_running() -> None:
    async with dispatch_harness(ONE_SLOT, stop_grace_s=5) as harness:
        running, waiting = harness.submit("running"), harness.submit("waiting")
        await harness.settle()
        stop = asyncio.ensure_future(harness.service.stop())
        await harness.settle()

        with pytest.raises(StoppingError):
            harness.submit("new")
        assert waiting.failure is not None
        assert (waiting.failure.code, waiting.failure.retryable) == ("router_stopping", True)
        await harness.answer("us")
        await stop
        assert running.state is InferenceState.COMPLETED


async def test_a_run_longer_than_the_grace_ends_retryable() -> None:
    async with dispatch_harness(ONE_SLOT, stop_grace_s=0.01) as harness:
        running = harness.submit("running")
        await harness.settle()
        await harness.service.stop()

        assert harness.backends["us"].calls[0].aborted
        assert running.failure is not None
        assert (running.failure.code, running.failure.retryable) == ("router_stopping", True)
        await harness.service.stop()
