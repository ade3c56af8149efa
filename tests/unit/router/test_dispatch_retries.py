"""Failed attempts: what is tried again, when, where, and what it does to the breaker."""

import pytest

from beacon_contracts.inference import InferenceState
from beacon_router.backends import BackendError
from beacon_router.scheduling import BackendSpec, Health
from beacon_router.service.errors import BackendsDownError
from tests.unit.router.shell_bed import failure, shell_bed, topology


def busy(retry_after_s: float) -> BackendError:
    return failure("backend_busy", status=429, blame=False, retry_after_s=retry_after_s)


ONE_REGION = topology([BackendSpec("us", "US", frozenset({"m"}), slots=1)])


async def test_a_failed_attempt_is_made_again_elsewhere_after_its_backoff() -> None:
    async with shell_bed() as bed:
        inference = bed.submit("a", region="US")
        await bed.fail("us", failure())

        assert bed.state("a") is InferenceState.BACKOFF
        await bed.clock.advance(1.9)
        assert bed.running("eu") == []
        await bed.clock.advance(0.2)
        assert bed.running("eu") == ["a"]
        await bed.answer("eu")

        assert inference.state is InferenceState.COMPLETED
        assert (inference.ask.region, inference.actual_region) == ("US", "EU")
        assert [attempt.outcome for attempt in inference.attempts] == ["failed", "completed"]


async def test_an_idle_region_starts_anothers_retry_at_the_moment_it_is_due() -> None:
    async with shell_bed() as bed:
        inference = bed.submit("a", region="US")
        await bed.fail("us", failure())
        due = inference.retry_at
        assert due is not None

        await bed.clock.advance(due - bed.clock.now())

        assert bed.running("eu") == ["a"]
        assert inference.run is not None
        assert inference.run.started_at == due


async def test_a_pinned_one_waits_for_its_own_region() -> None:
    async with shell_bed() as bed:
        inference = bed.submit("a", pinned=True)
        await bed.fail("us", failure())
        await bed.clock.advance(2)

        assert bed.running("us") == ["a"]
        assert bed.running("eu") == []
        await bed.answer("us")
        assert inference.actual_region == "US"


async def test_backoff_doubles_and_ends_after_the_last_attempt() -> None:
    async with shell_bed(ONE_REGION) as bed:
        inference = bed.submit("a")
        waits = []
        for _ in range(2):
            await bed.fail("us", failure())
            assert inference.retry_at is not None
            waits.append(inference.retry_at - bed.clock.now())
            await bed.clock.advance(waits[-1])
        await bed.fail("us", failure())

        assert waits == [2.0, 4.0]
        assert inference.state is InferenceState.FAILED
        assert inference.failure is not None
        assert inference.failure.retryable


async def test_a_backends_own_wish_is_honoured() -> None:
    async with shell_bed(ONE_REGION) as bed:
        bed.submit("a")
        bed.submit("b")
        await bed.fail("us", busy(retry_after_s=17.0))
        with pytest.raises(BackendsDownError) as refused:
            bed.submit("c")
        assert refused.value.retry_after_s == 17.0
        await bed.clock.advance(16.9)
        assert bed.running("us") == []
        await bed.clock.advance(0.1)
        assert bed.running("us") == ["a"]
        await bed.answer("us")
        assert bed.running("us") == ["b"]


async def test_a_wish_for_hours_holds_only_the_backend_that_has_it() -> None:
    """Movable work waited with it, though another region was free."""
    async with shell_bed() as bed:
        bed.submit("a", region="US")
        await bed.fail("us", busy(retry_after_s=7_200.0))
        pinned = bed.submit("pinned", region="EU", pinned=True)  # keeps the other region's slot for now
        await bed.clock.advance(2)
        assert bed.state("a") is InferenceState.QUEUED
        await bed.answer("eu")
        assert pinned.state is InferenceState.COMPLETED
        assert (bed.running("us"), bed.running("eu")) == ([], ["a"])


async def test_after_its_rest_one_probe_tells_whether_it_was_enough() -> None:
    two_slots = topology([BackendSpec("us", "US", frozenset({"m"}), slots=2)])
    async with shell_bed(two_slots) as bed:
        for request in ("a", "b", "c"):
            bed.submit(request)
        await bed.fail("us", busy(retry_after_s=7_200.0))
        await bed.answer("us")  # that another run ends well there does not end the rest
        assert bed.running("us") == []
        await bed.clock.advance(300)  # and no longer than that
        assert bed.running("us") == ["a"]
        await bed.fail("us", busy(retry_after_s=20.0))
        assert bed.running("us") == []
        await bed.clock.advance(20)
        await bed.answer("us")
        assert bed.shell.breakers.health("us") is Health.CLOSED


async def test_a_short_wish_is_covered_by_the_backoff() -> None:
    async with shell_bed(ONE_REGION) as bed:
        bed.submit("a")
        bed.submit("b")
        await bed.fail("us", busy(retry_after_s=1.0))
        assert bed.running("us") == ["b"]


async def test_what_will_never_work_is_not_tried_again() -> None:
    async with shell_bed() as bed:
        inference = bed.submit("a")
        await bed.fail("us", failure("backend_refused", retryable=False, blame=False, status=400))

        assert inference.state is InferenceState.FAILED
        assert inference.failure is not None
        assert not inference.failure.retryable
        await bed.clock.advance(100)
        assert len(bed.backends["us"].calls) + len(bed.backends["eu"].calls) == 1


async def test_a_retry_that_would_come_too_late_is_not_started() -> None:
    async with shell_bed() as bed:
        inference = bed.submit("a", start_by=1.5)
        await bed.fail("us", failure("backend_unavailable"))

        assert inference.state is InferenceState.FAILED
        assert inference.failure is not None
        assert inference.failure.code == "backend_unavailable"


async def test_backoff_holds_no_slot() -> None:
    async with shell_bed(ONE_REGION) as bed:
        bed.submit("a")
        bed.submit("b")
        await bed.fail("us", failure())

        assert bed.running("us") == ["b"]


async def test_consecutive_failures_open_the_breaker_and_one_probe_closes_it() -> None:
    async with shell_bed(ONE_REGION, attempts=1, breaker_failures=2) as bed:
        for request in ("a", "b"):
            bed.submit(request)
            await bed.fail("us", failure())
        assert bed.shell.breakers.health("us") is Health.OPEN
        with pytest.raises(BackendsDownError) as refused:
            bed.submit("c")
        assert refused.value.retry_after_s == 15.0

        await bed.clock.advance(15)
        assert bed.shell.breakers.health("us") is Health.HALF_OPEN
        bed.submit("c")
        bed.submit("d")
        await bed.settle()
        assert bed.running("us") == ["c"]
        await bed.answer("us")

        assert bed.shell.breakers.health("us") is Health.CLOSED
        assert bed.running("us") == ["d"]


async def test_a_failed_probe_opens_it_again() -> None:
    async with shell_bed(ONE_REGION, attempts=1, breaker_failures=1) as bed:
        bed.submit("a")
        await bed.fail("us", failure())
        await bed.clock.advance(15)
        bed.submit("b")
        await bed.fail("us", failure())

        assert bed.shell.breakers.health("us") is Health.OPEN
        await bed.clock.advance(14)
        assert bed.shell.breakers.health("us") is Health.OPEN
        await bed.clock.advance(1)
        assert bed.shell.breakers.health("us") is Health.HALF_OPEN


async def test_refusals_and_aborts_never_open_it() -> None:
    async with shell_bed(ONE_REGION, attempts=1, breaker_failures=1) as bed:
        bed.submit("refused")
        await bed.fail("us", failure("backend_refused", retryable=False, blame=False, status=422))
        bed.submit("aborted")
        await bed.settle()
        bed.shell.dispatcher.cancel(bed.get("aborted").id)
        await bed.settle()

        assert bed.shell.breakers.health("us") is Health.CLOSED


async def test_an_aborted_probe_leaves_room_for_the_next() -> None:
    async with shell_bed(ONE_REGION, attempts=1, breaker_failures=1) as bed:
        bed.submit("a")
        await bed.fail("us", failure())
        await bed.clock.advance(15)
        bed.submit("probe")
        bed.submit("next")
        await bed.settle()
        bed.shell.dispatcher.cancel(bed.get("probe").id)
        await bed.settle()

        assert bed.running("us") == ["next"]


async def test_a_region_that_is_down_hands_its_movable_queue_over() -> None:
    async with shell_bed(breaker_failures=1) as bed:
        bed.submit("running")
        movable = bed.submit("movable")
        pinned = bed.submit("pinned", pinned=True)
        await bed.fail("us", failure())
        await bed.answer("eu")

        assert movable.state is InferenceState.COMPLETED
        assert movable.actual_region == "EU"
        assert pinned.state is InferenceState.QUEUED


async def test_a_backend_whose_health_check_fails_gets_no_work() -> None:
    async with shell_bed(ONE_REGION) as bed:
        bed.submit("a")
        bed.submit("b")
        await bed.settle()
        bed.shell.breakers.checked("us", up=False)
        await bed.answer("us")
        assert bed.running("us") == []

        bed.shell.breakers.checked("us", up=True)
        await bed.settle()
        assert bed.running("us") == ["b"]
