"""Runs: slots, time limits, cancellation. A slot always comes back."""

import gc
import weakref

import pytest

from beacon_contracts.failures import FailureStage
from beacon_contracts.inference import InferenceState
from beacon_contracts.tiers import Tier
from beacon_router.scheduling import BackendSpec, GroupSpec, Health, RequestId
from beacon_router.service.inference import Ask, Payload
from beacon_router.service.streams import StreamSink
from tests.unit.router.shell_bed import LOAD_S, READER_S, RUN_S, failure, shell_bed, topology

ONE_SLOT = topology([BackendSpec("us", "US", frozenset({"m", "n"}), slots=1)])


async def warm(bed: object, request: str = "warm-up") -> None:
    """After this the model m is loaded."""
    bed.submit(request)  # type: ignore[attr-defined]
    await bed.answer("us")  # type: ignore[attr-defined]


async def test_a_finished_run_frees_its_slot() -> None:
    async with shell_bed(ONE_SLOT) as bed:
        bed.submit("a")
        bed.submit("b")
        await bed.settle()
        assert bed.running("us") == ["a"]
        await bed.answer("us")
        assert bed.running("us") == ["b"]


@pytest.mark.parametrize("cancelled", [False, True])
async def test_what_a_run_needed_is_gone_with_it(cancelled: bool) -> None:
    """Without the collector, whose pauses all others would wait for."""
    async with shell_bed(ONE_SLOT) as bed:
        bed.submit("a")
        await bed.settle()
        attempt = weakref.ref(bed.backends["us"].calls[0])
        gc.disable()
        try:
            if cancelled:
                bed.shell.dispatcher.cancel(RequestId("a"))
            else:
                await bed.answer("us")
            bed.backends["us"].calls.clear()
            assert attempt() is None
        finally:
            gc.enable()


async def test_a_cancelled_run_frees_its_slot_and_its_connection() -> None:
    async with shell_bed(ONE_SLOT) as bed:
        bed.submit("a")
        bed.submit("b")
        await bed.settle()

        cancelled = bed.shell.dispatcher.cancel(bed.get("a").id)
        assert cancelled.state is InferenceState.CANCELLED
        await bed.settle()

        assert bed.backends["us"].calls[0].aborted
        assert bed.running("us") == ["b"]


async def test_a_run_cancelled_before_its_first_step_frees_its_slot() -> None:
    async with shell_bed(ONE_SLOT) as bed:
        bed.submit("a")
        bed.shell.dispatcher.cancel(bed.get("a").id)
        bed.submit("b")
        await bed.settle()

        assert bed.running("us") == ["b"]


async def test_a_crashed_run_frees_its_slot_and_says_so() -> None:
    async with shell_bed(ONE_SLOT) as bed:
        bed.backends["us"].crash = KeyError("a defect of an adapter")
        inference = bed.submit("a")
        await bed.settle()
        assert inference.failure is not None
        assert inference.failure.code == "internal_error"

        bed.backends["us"].crash = None
        bed.submit("b")
        await bed.settle()
        assert bed.running("us") == ["b"]


async def test_a_cancelled_waiter_never_runs() -> None:
    async with shell_bed(ONE_SLOT) as bed:
        bed.submit("a")
        bed.submit("b")
        bed.shell.dispatcher.cancel(bed.get("b").id)
        await bed.answer("us")

        assert bed.running("us") == []
        assert bed.get("b").state is InferenceState.CANCELLED


async def test_one_in_backoff_can_be_cancelled() -> None:
    async with shell_bed(ONE_SLOT) as bed:
        bed.submit("a")
        await bed.fail("us", failure())
        bed.shell.dispatcher.cancel(bed.get("a").id)
        await bed.clock.advance(10)

        assert len(bed.backends["us"].calls) == 1


async def test_what_is_over_cannot_be_cancelled() -> None:
    async with shell_bed(ONE_SLOT) as bed:
        bed.submit("a")
        await bed.answer("us")

        assert bed.shell.dispatcher.cancel(bed.get("a").id).state is InferenceState.COMPLETED


async def test_an_empty_answer_is_an_answer() -> None:
    async with shell_bed(ONE_SLOT) as bed:
        inference = bed.submit("a")
        await bed.answer("us", b'""')

        assert inference.state is InferenceState.COMPLETED
        assert inference.output == b'""'
        assert inference.failure is None


@pytest.mark.parametrize(("said_s", "load_s"), [(2.0, 2.0), (3_000.0, 0.0)])
async def test_a_load_that_took_longer_than_the_whole_run_is_not_believed(
    said_s: float, load_s: float
) -> None:
    async with shell_bed(ONE_SLOT) as bed:
        await warm(bed)
        inference = bed.submit("a")
        await bed.clock.advance(3.0)
        await bed.answer("us", load_s=said_s)

        (attempt,) = inference.attempts
        assert (attempt.load_s, attempt.run_s) == (load_s, 3.0 - load_s)


async def test_waiting_never_counts_against_the_run_limit() -> None:
    async with shell_bed(ONE_SLOT) as bed:
        await warm(bed)
        bed.submit("a", timeout_s=1_000)
        inference = bed.submit("b")
        await bed.clock.advance(900)
        await bed.answer("us")
        await bed.clock.advance(RUN_S - 1)
        await bed.answer("us")

        assert inference.state is InferenceState.COMPLETED


async def test_a_warm_run_ends_at_the_run_limit() -> None:
    async with shell_bed(ONE_SLOT, attempts=1) as bed:
        await warm(bed)
        inference = bed.submit("a")
        await bed.clock.advance(RUN_S - 0.1)
        assert inference.state is InferenceState.RUNNING
        await bed.clock.advance(0.2)

        assert inference.failure is not None
        assert (inference.failure.code, inference.failure.stage) == ("run_timeout", FailureStage.RUN)
        assert bed.backends["us"].calls[-1].aborted


async def test_a_cold_start_has_time_to_load_besides() -> None:
    async with shell_bed(ONE_SLOT, attempts=1) as bed:
        inference = bed.submit("a")
        await bed.clock.advance(LOAD_S + RUN_S - 0.1)
        assert inference.state is InferenceState.WARMING
        await bed.clock.advance(0.2)

        assert inference.failure is not None
        assert (inference.failure.code, inference.failure.stage) == ("load_timeout", FailureStage.LOAD)


async def test_whoever_joins_a_cold_start_has_the_same_time() -> None:
    two_slots = topology([BackendSpec("us", "US", frozenset({"m"}), slots=2)])
    async with shell_bed(two_slots, attempts=1) as bed:
        bed.submit("a")
        second = bed.submit("b")
        await bed.clock.advance(RUN_S + 1)

        assert second.state is InferenceState.WARMING


async def test_after_a_timeout_the_model_counts_as_not_loaded() -> None:
    async with shell_bed(ONE_SLOT, attempts=1) as bed:
        await warm(bed)
        bed.submit("a")
        await bed.clock.advance(RUN_S)
        inference = bed.submit("b")
        await bed.settle()

        assert inference.state is InferenceState.WARMING


async def test_the_callers_own_limit_counts_from_the_start_of_the_run() -> None:
    async with shell_bed(ONE_SLOT, attempts=1) as bed:
        await warm(bed)
        inference = bed.submit("a", timeout_s=3)
        await bed.clock.advance(3)

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
    async with shell_bed(grouped) as bed:
        for number in range(10):
            bed.submit(f"a{number}", region="US" if number % 2 else "EU")
        await bed.settle()

        assert len(bed.running("us")) + len(bed.running("eu")) == 3


@pytest.mark.parametrize("moment", [0.0, 1.0, 3.0])
async def test_where_it_ran_is_recorded_while_it_runs(moment: float) -> None:
    async with shell_bed(ONE_SLOT) as bed:
        inference = bed.submit("a")
        await bed.clock.advance(moment)

        assert (inference.actual_region, inference.backend) == ("US", "us")


async def test_a_client_that_does_not_read_its_stream_is_not_held_against_the_backend() -> None:
    async with shell_bed(ONE_SLOT, breaker_failures=1) as bed:
        await warm(bed)
        sink = StreamSink()
        ask = Ask(RequestId("stalled"), "m", "US", Tier.FREE, sink=sink)
        stalled = bed.shell.dispatcher.submit(ask, Payload(b"{}"))
        await bed.settle()
        sink.opened(Tap())
        sink.feed(b"x" * 1_000_000)
        await bed.clock.advance(RUN_S)

        assert stalled.failure is not None
        assert stalled.failure.code == "client_too_slow"
        assert bed.shell.breakers.health("us") is Health.CLOSED
        bed.submit("next")
        await bed.settle()
        assert bed.running("us") == ["next"]


async def test_a_client_that_stops_reading_does_not_keep_its_slot() -> None:
    async with shell_bed(ONE_SLOT, breaker_failures=1) as bed:
        await warm(bed)
        sink = StreamSink()
        ask = Ask(RequestId("stalled"), "m", "US", Tier.FREE, sink=sink)
        stalled = bed.shell.dispatcher.submit(ask, Payload(b"{}"))
        await bed.settle()
        sink.opened(Tap())
        for _ in range(3):
            sink.feed(b"x" * 200_000)
        await bed.clock.advance(READER_S - 1)
        await sink.read()  # it reads on, though not enough
        await bed.clock.advance(READER_S - 1)
        assert stalled.state is InferenceState.RUNNING
        await bed.clock.advance(1)

        assert stalled.failure is not None
        assert (stalled.failure.code, stalled.attempts[0].outcome) == ("client_too_slow", "cancelled")
        assert bed.backends["us"].calls[-1].aborted
        assert bed.shell.breakers.health("us") is Health.CLOSED


async def test_a_client_that_reads_on_may_take_its_time() -> None:
    async with shell_bed(ONE_SLOT) as bed:
        await warm(bed)
        sink = StreamSink()
        ask = Ask(RequestId("slow"), "m", "US", Tier.FREE, sink=sink)
        slow = bed.shell.dispatcher.submit(ask, Payload(b"{}"))
        await bed.settle()
        sink.opened(Tap())
        sink.feed(b"x" * 300_000)
        await bed.clock.advance(READER_S - 1)
        await sink.read()  # all that there is: now it waits for the backend
        await bed.clock.advance(READER_S + 1)
        await bed.answer("us")
        assert slow.state is InferenceState.COMPLETED


class Tap:
    """A connection that can be held back."""

    def pause(self) -> None: ...

    def resume(self) -> None: ...
