"""The same request twice, fences, results that are kept, and what is refused."""

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
from beacon_router.service.inference_store import RESULT_OVERHEAD
from tests.unit.router.shell_bed import failure, shell_bed, topology

ONE_SLOT = topology([BackendSpec("us", "US", frozenset({"m", "n"}), slots=1)])
REFUSED = failure("backend_refused", retryable=False, blame=False, status=400)


async def test_the_same_id_joins_the_run_that_exists() -> None:
    async with shell_bed(ONE_SLOT) as bed:
        first = bed.submit("a")
        await bed.settle()
        second = bed.submit("a")
        await bed.answer("us")

        assert first is second
        assert len(bed.backends["us"].calls) == 1


async def test_a_completed_one_is_answered_from_memory_whatever_the_fence() -> None:
    async with shell_bed(ONE_SLOT) as bed:
        bed.submit("a", fence=5)
        await bed.answer("us")

        for fence in (4, 5, 6):
            assert bed.submit("a", fence=fence).state is InferenceState.COMPLETED
        assert len(bed.backends["us"].calls) == 1


async def test_a_fence_that_goes_back_is_refused() -> None:
    async with shell_bed(ONE_SLOT) as bed:
        bed.submit("a", fence=2)

        with pytest.raises(StaleFenceError):
            bed.submit("a", fence=1)
        with pytest.raises(StaleFenceError):
            bed.shell.dispatcher.cancel(bed.get("a").id, fence=1)
        assert bed.get("a").state is not InferenceState.CANCELLED


async def test_a_later_fence_takes_a_live_one_over() -> None:
    async with shell_bed(ONE_SLOT) as bed:
        bed.submit("a", fence=1)
        assert bed.submit("a", fence=3).fence == 3

        with pytest.raises(StaleFenceError):
            bed.submit("a", fence=2)


async def test_a_failed_one_is_kept_for_its_fence_and_run_again_for_a_later_one() -> None:
    async with shell_bed(ONE_SLOT) as bed:
        bed.submit("a", fence=1)
        await bed.fail("us", REFUSED)

        assert bed.submit("a", fence=1).state is InferenceState.FAILED
        again = bed.submit("a", fence=2)
        await bed.answer("us")

        assert again.state is InferenceState.COMPLETED
        assert len(bed.backends["us"].calls) == 2


async def test_one_that_never_ran_may_be_asked_for_again_with_the_same_fence() -> None:
    async with shell_bed(ONE_SLOT) as bed:
        bed.submit("running", timeout_s=1_000)
        late = bed.submit("a", fence=1, start_by=10)
        await bed.clock.advance(10.1)
        assert late.failure is not None
        assert late.failure.code == "start_by_passed"

        again = bed.submit("a", fence=1, start_by=1_000)
        await bed.answer("us")
        await bed.answer("us")

        assert again.state is InferenceState.COMPLETED


async def test_a_cancelled_one_runs_again_only_when_the_first_run_is_gone() -> None:
    async with shell_bed(ONE_SLOT) as bed:
        bed.submit("a", fence=1)
        await bed.settle()
        bed.shell.dispatcher.cancel(bed.get("a").id)
        assert bed.backends["us"].calls[0].aborted
        again = bed.submit("a", fence=2)
        await bed.answer("us")

        assert [held.aborted for held in bed.backends["us"].calls] == [True, False]
        assert again.state is InferenceState.COMPLETED


async def test_what_was_under_way_when_it_was_cancelled_is_refused_when_it_comes() -> None:
    """The cancel overtakes the question of the lease that it breaks, which would run to its end."""
    async with shell_bed(ONE_SLOT) as bed:
        with pytest.raises(UnknownInferenceError):
            bed.shell.dispatcher.cancel(RequestId("a"), fence=6)
        with pytest.raises(StaleFenceError):
            bed.submit("a", fence=5)
        assert bed.submit("a", fence=6).state is not InferenceState.CANCELLED


async def test_a_broken_lease_is_not_run_again_in_the_place_of_an_earlier_failure() -> None:
    async with shell_bed(ONE_SLOT) as bed:
        bed.submit("a", fence=1)
        await bed.fail("us", REFUSED)
        told = bed.shell.dispatcher.cancel(RequestId("a"), fence=3)

        assert (told.state, told.fence) == (InferenceState.FAILED, 1), "the story of the first lease"
        with pytest.raises(StaleFenceError):
            bed.submit("a", fence=2)


async def test_one_that_runs_again_can_be_cancelled_again() -> None:
    async with shell_bed(ONE_SLOT) as bed:
        bed.submit("a", fence=1)
        await bed.settle()
        bed.shell.dispatcher.cancel(bed.get("a").id)
        bed.submit("a", fence=2)
        bed.shell.dispatcher.cancel(bed.get("a").id)
        await bed.settle()

        assert bed.running("us") == []
        assert bed.shell.engine.waiting() == 0


async def test_an_id_names_one_piece_of_work() -> None:
    async with shell_bed(ONE_SLOT) as bed:
        bed.submit("a", model="m")

        with pytest.raises(RequestIdReusedError):
            bed.submit("a", model="n")


async def test_joining_with_front_moves_it_to_the_front() -> None:
    async with shell_bed(ONE_SLOT) as bed:
        for request in ("running", "first", "paid"):
            bed.submit(request)
        bed.submit("paid", front=True)
        await bed.answer("us")

        assert bed.running("us") == ["paid"]


async def test_all_who_wait_are_woken_with_the_result() -> None:
    async with shell_bed(ONE_SLOT) as bed:
        inference = bed.submit("a")
        waits = [asyncio.ensure_future(bed.shell.dispatcher.wait(inference, None)) for _ in range(3)]
        await bed.answer("us")

        assert await asyncio.gather(*waits) == [True, True, True]


async def test_a_caller_that_cannot_be_told_disturbs_nobody() -> None:
    def broken() -> None:
        raise RuntimeError("a defect of the edge")

    async with shell_bed(ONE_SLOT) as bed:
        inference, following = bed.submit("a"), bed.submit("b")
        bed.shell.dispatcher.when_done(inference, None, broken)
        other = asyncio.ensure_future(bed.shell.dispatcher.wait(inference, None))
        await bed.answer("us")
        await bed.answer("us")

        assert await other
        assert following.state is InferenceState.COMPLETED


async def test_a_wait_ends_after_its_seconds() -> None:
    async with shell_bed(ONE_SLOT) as bed:
        inference = bed.submit("a")
        wait = asyncio.ensure_future(bed.shell.dispatcher.wait(inference, 5))
        await bed.settle()
        await bed.clock.advance(4.9)
        assert not wait.done()
        await bed.clock.advance(0.1)

        assert await wait is False
        assert not inference.waiters


async def test_results_are_forgotten_after_their_time_even_when_nothing_happens() -> None:
    async with shell_bed(ONE_SLOT, retention_s=600) as bed:
        bed.submit("a")
        await bed.answer("us")
        await bed.clock.advance(599)
        assert bed.get("a").output == b'"done"'
        await bed.clock.advance(1)

        assert len(bed.shell.held) == 0
        with pytest.raises(UnknownInferenceError):
            bed.get("a")


async def test_results_are_bounded_in_bytes_and_the_oldest_goes_first() -> None:
    each = RESULT_OVERHEAD + 200
    async with shell_bed(ONE_SLOT, held_bytes=2 * 2 * each) as bed:
        for request in ("a", "b", "c"):
            bed.submit(request)
            await bed.answer("us", b"x" * 200)

        assert bed.shell.held.result_bytes == 2 * each
        with pytest.raises(UnknownInferenceError):
            bed.get("a")
        assert bed.get("c").done


async def test_what_is_held_of_inputs_is_bounded() -> None:
    async with shell_bed(ONE_SLOT, held_bytes=1_000) as bed:
        bed.submit("a", size=600)
        with pytest.raises(MemoryFullError) as refused:
            bed.submit("b", size=600)
        assert refused.value.retry_after_s >= 1

        await bed.answer("us")
        assert bed.shell.held.payload_bytes == 0
        bed.submit("b", size=600)


async def test_a_full_queue_refuses_and_holds_nothing() -> None:
    async with shell_bed(ONE_SLOT, queue_size=2) as bed:
        for request in ("running", "a", "b"):
            bed.submit(request)
        with pytest.raises(QueueFullError) as refused:
            bed.submit("c")

        assert refused.value.retry_after_s >= 1
        with pytest.raises(UnknownInferenceError):
            bed.get("c")


async def test_what_nobody_can_serve_is_refused() -> None:
    with_eu = topology([BackendSpec("us", "US", frozenset({"m"})), BackendSpec("eu", "EU", frozenset({"n"}))])
    async with shell_bed(with_eu) as bed:
        with pytest.raises(NoBackendError):
            bed.submit("a", model="n", region="US", pinned=True)
        moved = bed.submit("b", model="n", region="US")
        await bed.answer("eu")

        assert moved.actual_region == "EU"


async def test_one_that_comes_too_late_is_refused() -> None:
    async with shell_bed(ONE_SLOT) as bed:
        await bed.clock.advance(100)
        with pytest.raises(StartByPassedError):
            bed.submit("a", start_by=99)


async def test_one_that_waits_too_long_ends_without_a_gpu() -> None:
    async with shell_bed(ONE_SLOT) as bed:
        bed.submit("running", timeout_s=1_000)
        inference = bed.submit("a", start_by=10)
        wait = asyncio.ensure_future(bed.shell.dispatcher.wait(inference, None))
        await bed.clock.advance(10.1)

        assert await wait
        assert inference.failure is not None
        assert inference.failure.code == "start_by_passed"
        assert len(bed.backends["us"].calls) == 1


async def test_stopping_refuses_answers_and_finishes() -> None:
    async with shell_bed(ONE_SLOT, stop_grace_s=5) as bed:
        running, waiting = bed.submit("running"), bed.submit("waiting")
        await bed.settle()
        stop = asyncio.ensure_future(bed.shell.stop())
        await bed.settle()

        with pytest.raises(StoppingError):
            bed.submit("new")
        assert waiting.failure is not None
        assert (waiting.failure.code, waiting.failure.retryable) == ("router_stopping", True)
        await bed.answer("us")
        await stop
        assert running.state is InferenceState.COMPLETED


async def test_a_run_that_outlives_the_grace_is_ended_and_retryable() -> None:
    async with shell_bed(ONE_SLOT, stop_grace_s=0.01) as bed:
        running = bed.submit("running")
        await bed.settle()
        await bed.shell.stop()

        assert bed.backends["us"].calls[0].aborted
        assert running.failure is not None
        assert (running.failure.code, running.failure.retryable) == ("router_stopping", True)
        await bed.shell.stop()
