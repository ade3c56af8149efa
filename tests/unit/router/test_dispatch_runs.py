"""Runs: slots, timeouts, cancellation. A slot is always released."""

import gc
import weakref

import pytest

from beacon_contracts.failures import FailureStage
from beacon_contracts.inference import InferenceState
from beacon_router.http.presenter import timing_document
from beacon_router.scheduling import BackendSpec, GroupSpec, Health, RequestId
from beacon_router.service.inference import Run
from beacon_router.service.streams import StreamSink
from tests.unit.router.dispatch_harness import LOAD_S, READER_S, RUN_S, dispatch_harness, failure, topology

ONE_SLOT = topology([BackendSpec("us", "US", frozenset({"m", "n"}), slots=1)])


async def warm(harness: object, request: str = "warm-up") -> None:
    """After this the model m is loaded."""
    harness.submit(request)  # type: ignore[attr-defined]
    await harness.answer("us")  # type: ignore[attr-defined]


async def test_a_finished_run_frees_its_slot() -> None:
    async with dispatch_harness(ONE_SLOT) as harness:
        harness.submit("a")
        harness.submit("b")
        await harness.settle()
        assert harness.running("us") == ["a"]
        await harness.answer("us")
        assert harness.running("us") == ["b"]


@pytest.mark.parametrize("end", ["completed", "cancelled", "failed", "retried"])
async def test_an_ended_run_is_freed_without_the_collector(end: str) -> None:
    """Without the garbage collector, whose pauses delay other requests."""
    async with dispatch_harness(ONE_SLOT) as harness:
        harness.submit("a")
        await harness.settle()
        attempt = weakref.ref(harness.backends["us"].calls[0])
        gc.collect()  # of other tests
        gc.disable()
        try:
            if end == "cancelled":
                harness.service.cancel(RequestId("a"))
                await harness.settle()
            elif end == "completed":
                await harness.answer("us")
            else:
                await harness.fail("us", failure(retryable=end == "retried"))
            harness.backends["us"].calls.clear()
            assert attempt() is None
            assert not [each for each in gc.get_objects() if isinstance(each, Run)]
        finally:
            gc.enable()


async def test_a_cancelled_run_frees_its_slot_and_its_connection() -> None:
    async with dispatch_harness(ONE_SLOT) as harness:
        harness.submit("a")
        harness.submit("b")
        await harness.settle()

        cancelled = harness.service.cancel(harness.get("a").id)
        assert cancelled.state is InferenceState.CANCELLED
        await harness.settle()

        assert harness.backends["us"].calls[0].aborted
        assert harness.running("us") == ["b"]


async def test_a_cancelled_run_keeps_its_attempt_and_its_times() -> None:
    async with dispatch_harness(ONE_SLOT) as harness:
        harness.submit("first")
        harness.submit("a")
        await harness.settle()
        await harness.clock.advance(4.0)
        await harness.answer("us")
        await harness.clock.advance(10.0)

        inference = harness.service.cancel(harness.get("a").id)
        (attempt,) = inference.attempts
        assert (attempt.outcome, attempt.backend, attempt.queued_s, attempt.run_s) == (
            "cancelled",
            "us",
            4,
            10,
        )
        assert timing_document(inference, harness.clock.now()) == {"queued_s": 4, "load_s": 0, "run_s": 10}


async def test_a_run_cancelled_before_its_first_step_frees_its_slot() -> None:
    async with dispatch_harness(ONE_SLOT) as harness:
        harness.submit("a")
        harness.service.cancel(harness.get("a").id)
        harness.submit("b")
        await harness.settle()

        assert harness.running("us") == ["b"]


async def test_a_crashed_run_frees_its_slot_and_reports_it() -> None:
    async with dispatch_harness(ONE_SLOT) as harness:
        harness.backends["us"].crash = KeyError("a defect of an adapter")
        inference = harness.submit("a")
        await harness.settle()
        assert inference.failure is not None
        assert inference.failure.code == "internal_error"

        harness.backends["us"].crash = None
        harness.submit("b")
        await harness.settle()
        assert harness.running("us") == ["b"]


async def test_a_cancelled_waiter_never_runs() -> None:
    async with dispatch_harness(ONE_SLOT) as harness:
        harness.submit("a")
        harness.submit("b")
        harness.service.cancel(harness.get("b").id)
        await harness.answer("us")

        assert harness.running("us") == []
        assert harness.get("b").state is InferenceState.CANCELLED


async def test_a_request_in_backoff_can_be_cancelled() -> None:
    async with dispatch_harness(ONE_SLOT) as harness:
        harness.submit("a")
        await harness.fail("us", failure())
        harness.service.cancel(harness.get("a").id)
        await harness.clock.advance(10)

        assert len(harness.backends["us"].calls) == 1


async def test_an_ended_inference_cannot_be_cancelled() -> None:
    async with dispatch_harness(ONE_SLOT) as harness:
        harness.submit("a")
        await harness.answer("us")

        assert harness.service.cancel(harness.get("a").id).state is InferenceState.COMPLETED


async def test_an_empty_output_is_completed() -> None:
    async with dispatch_harness(ONE_SLOT) as harness:
        inference = harness.submit("a")
        await harness.answer("us", b'""')

        assert inference.state is InferenceState.COMPLETED
        assert inference.output == b'""'
        assert inference.failure is None


@pytest.mark.parametrize(("said_s", "load_s"), [(2.0, 2.0), (3_000.0, 0.0)])
async def test_an_implausible_load_time_is_ignored(said_s: float, load_s: float) -> None:
    async with dispatch_harness(ONE_SLOT) as harness:
        await warm(harness)
        inference = harness.submit("a")
        await harness.clock.advance(3.0)
        await harness.answer("us", load_s=said_s)

        (attempt,) = inference.attempts
        assert (attempt.load_s, attempt.run_s) == (load_s, 3.0 - load_s)


async def test_waiting_never_counts_against_the_run_limit() -> None:
    async with dispatch_harness(ONE_SLOT) as harness:
        await warm(harness)
        harness.submit("a", timeout_s=1_000)
        inference = harness.submit("b")
        await harness.clock.advance(900)
        await harness.answer("us")
        await harness.clock.advance(RUN_S - 1)
        await harness.answer("us")

        assert inference.state is InferenceState.COMPLETED


async def test_a_warm_run_ends_at_the_run_limit() -> None:
    async with dispatch_harness(ONE_SLOT, attempts=1) as harness:
        await warm(harness)
        inference = harness.submit("a")
        await harness.clock.advance(RUN_S - 0.1)
        assert inference.state is InferenceState.RUNNING
        await harness.clock.advance(0.2)

        assert inference.failure is not None
        assert (inference.failure.code, inference.failure.stage) == ("run_timeout", FailureStage.RUN)
        assert harness.backends["us"].calls[-1].aborted


async def test_a_cold_start_has_the_load_timeout_in_addition() -> None:
    async with dispatch_harness(ONE_SLOT, attempts=1) as harness:
        inference = harness.submit("a")
        await harness.clock.advance(LOAD_S + RUN_S - 0.1)
        assert inference.state is InferenceState.WARMING
        await harness.clock.advance(0.2)

        assert inference.failure is not None
        assert (inference.failure.code, inference.failure.stage) == ("load_timeout", FailureStage.LOAD)


async def test_runs_that_join_a_cold_start_have_the_same_timeout() -> None:
    two_slots = topology([BackendSpec("us", "US", frozenset({"m"}), slots=2)])
    async with dispatch_harness(two_slots, attempts=1) as harness:
        harness.submit("a")
        second = harness.submit("b")
        await harness.clock.advance(RUN_S + 1)

        assert second.state is InferenceState.WARMING


async def test_after_a_timeout_the_model_counts_as_not_loaded() -> None:
    async with dispatch_harness(ONE_SLOT, attempts=1) as harness:
        await warm(harness)
        harness.submit("a")
        await harness.clock.advance(RUN_S)
        inference = harness.submit("b")
        await harness.settle()

        assert inference.state is InferenceState.WARMING


async def test_the_callers_timeout_counts_from_the_start_of_the_run() -> None:
    async with dispatch_harness(ONE_SLOT, attempts=1) as harness:
        await warm(harness)
        inference = harness.submit("a", timeout_s=3)
        await harness.clock.advance(3)

        assert inference.failure is not None
        assert inference.failure.code == "run_timeout"


async def test_a_groups_cap_holds_over_regions() -> None:
    grouped = topology(
        [
            BackendSpec("us", "US", frozenset({"m"}), slots=5, group="modal"),
            BackendSpec("eu", "EU", frozenset({"m"}), slots=5, group="modal"),
        ],
        groups=[GroupSpec("modal", 3)],
        models=topology().models[:1],
    )
    async with dispatch_harness(grouped) as harness:
        for number in range(10):
            harness.submit(f"a{number}", region="US" if number % 2 else "EU")
        await harness.settle()

        assert len(harness.running("us")) + len(harness.running("eu")) == 3


@pytest.mark.parametrize("moment", [0.0, 1.0, 3.0])
async def test_where_it_ran_is_recorded_while_it_runs(moment: float) -> None:
    async with dispatch_harness(ONE_SLOT) as harness:
        inference = harness.submit("a")
        await harness.clock.advance(moment)

        assert (inference.actual_region, inference.backend) == ("US", "us")


async def test_a_stalled_client_is_no_failure_of_the_backend() -> None:
    async with dispatch_harness(ONE_SLOT, breaker_failures=1) as harness:
        await warm(harness)
        sink = StreamSink()
        stalled = harness.submit("stalled", sink=sink)
        await harness.settle()
        (call,) = harness.backends["us"].open
        call.write(b"x" * 1_000_000)
        await harness.clock.advance(RUN_S)

        assert stalled.failure is not None
        assert stalled.failure.code == "client_too_slow"
        assert harness.service.breakers.health("us") is Health.CLOSED
        harness.submit("next")
        await harness.settle()
        assert harness.running("us") == ["next"]


async def test_a_client_that_stops_reading_does_not_keep_its_slot() -> None:
    async with dispatch_harness(ONE_SLOT, breaker_failures=1) as harness:
        await warm(harness)
        sink = StreamSink()
        stalled = harness.submit("stalled", sink=sink)
        await harness.settle()
        (call,) = harness.backends["us"].open
        for _ in range(4):
            call.write(b"x" * 200_000)
        await harness.clock.advance(READER_S - 1)
        await sink.read()  # it reads, but the next pieces fill the buffer again
        await harness.settle()
        await harness.clock.advance(READER_S - 1)
        assert stalled.state is InferenceState.RUNNING
        await harness.clock.advance(1)

        assert stalled.failure is not None
        assert (stalled.failure.code, stalled.attempts[0].outcome) == ("client_too_slow", "cancelled")
        assert harness.backends["us"].calls[-1].aborted
        assert harness.service.breakers.health("us") is Health.CLOSED


async def test_a_slow_but_reading_client_keeps_its_stream() -> None:
    async with dispatch_harness(ONE_SLOT) as harness:
        await warm(harness)
        sink = StreamSink()
        slow = harness.submit("slow", sink=sink)
        await harness.settle()
        (call,) = harness.backends["us"].open
        call.write(b"x" * 300_000)
        await harness.clock.advance(READER_S - 1)
        await sink.read()  # all that there is: now it waits for the backend
        await harness.clock.advance(READER_S + 1)
        await harness.answer("us")
        assert slow.state is InferenceState.COMPLETED
