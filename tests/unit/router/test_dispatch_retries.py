"""Failed attempts: retries, delays, regions, breaker."""

import pytest

from beacon_contracts.inference import InferenceState
from beacon_router.backends import BackendError
from beacon_router.backends.errors import backend_fault
from beacon_router.scheduling import BackendSpec, Health
from beacon_router.service.errors import BackendsDownError
from tests.unit.router.dispatch_harness import dispatch_harness, failure, topology


def busy(retry_after_s: float) -> BackendError:
    return failure("backend_busy", status=429, counts_as_failure=False, retry_after_s=retry_after_s)


ONE_REGION = topology([BackendSpec("us", "US", frozenset({"m"}), slots=1)])


async def test_a_failed_attempt_is_repeated_in_another_region_after_its_backoff() -> None:
    async with dispatch_harness() as harness:
        inference = harness.submit("a", region="US")
        await harness.fail("us", failure())

        assert harness.state("a") is InferenceState.BACKOFF
        await harness.clock.advance(1.9)
        assert harness.running("eu") == []
        await harness.clock.advance(0.2)
        assert harness.running("eu") == ["a"]
        await harness.answer("eu")

        assert inference.state is InferenceState.COMPLETED
        assert (inference.spec.region, inference.actual_region) == ("US", "EU")
        assert [attempt.outcome for attempt in inference.attempts] == ["failed", "completed"]


async def test_an_idle_region_starts_a_retry_of_another_when_it_is_due() -> None:
    async with dispatch_harness() as harness:
        inference = harness.submit("a", region="US")
        await harness.fail("us", failure())
        due = inference.retry_at
        assert due is not None

        await harness.clock.advance(due - harness.clock.now())

        assert harness.running("eu") == ["a"]
        assert inference.run is not None
        assert inference.run.started_at == due


async def test_a_retry_returns_when_the_other_region_stays_busy() -> None:
    async with dispatch_harness() as harness:
        harness.submit("busy", region="EU", pinned=True)
        harness.submit("a", region="US")
        await harness.fail("us", failure())
        await harness.clock.advance(2)
        assert harness.running("us") == [], "the other region may be free soon"
        await harness.clock.advance(2)
        assert harness.running("us") == ["a"], "the busy region is not free soon"


async def test_the_last_attempt_is_made_in_the_region_not_tried_yet() -> None:
    three = topology(
        [BackendSpec(name.lower(), name, frozenset({"m"}), slots=1) for name in ("US", "EU", "ASIA")]
    )
    async with dispatch_harness(three) as harness:
        inference = harness.submit("a", region="US")
        await harness.fail("us", failure())
        await harness.clock.advance(2)
        (second,) = {"eu", "asia"} & {name for name in ("us", "eu", "asia") if harness.running(name)}
        await harness.fail(second, failure())
        await harness.clock.advance(4)
        await harness.answer(({"eu", "asia"} - {second}).pop())
        assert {attempt.region for attempt in inference.attempts} == {"US", "EU", "ASIA"}


async def test_a_fault_does_not_send_a_retry_back_to_a_region_where_it_failed() -> None:
    three = topology(
        [BackendSpec(name.lower(), name, frozenset({"m"}), slots=1) for name in ("US", "EU", "ASIA")]
    )
    async with dispatch_harness(three) as harness:
        harness.submit("a", region="US")
        await harness.fail("us", failure())
        await harness.clock.advance(2)
        (second,) = {"eu", "asia"} & {name for name in ("us", "eu", "asia") if harness.running(name)}

        await harness.fail(second, backend_fault("backend_unauthorized", "its key is refused", status=401))

        assert harness.running(({"eu", "asia"} - {second}).pop()) == ["a"]


async def test_a_pinned_request_waits_for_its_region() -> None:
    async with dispatch_harness() as harness:
        inference = harness.submit("a", pinned=True)
        await harness.fail("us", failure())
        await harness.clock.advance(2)

        assert harness.running("us") == ["a"]
        assert harness.running("eu") == []
        await harness.answer("us")
        assert inference.actual_region == "US"


async def test_backoff_doubles_and_ends_after_the_last_attempt() -> None:
    async with dispatch_harness(ONE_REGION) as harness:
        inference = harness.submit("a")
        waits = []
        for _ in range(2):
            await harness.fail("us", failure())
            assert inference.retry_at is not None
            waits.append(inference.retry_at - harness.clock.now())
            await harness.clock.advance(waits[-1])
        await harness.fail("us", failure())

        assert waits == [2.0, 4.0]
        assert inference.state is InferenceState.FAILED
        assert inference.failure is not None
        assert inference.failure.retryable


async def test_retry_after_of_a_backend_is_honoured() -> None:
    async with dispatch_harness(ONE_REGION) as harness:
        harness.submit("a")
        harness.submit("b")
        await harness.fail("us", busy(retry_after_s=17.0))
        with pytest.raises(BackendsDownError) as refused:
            harness.submit("c")
        assert refused.value.retry_after_s == 17.0
        await harness.clock.advance(16.9)
        assert harness.running("us") == []
        await harness.clock.advance(0.1)
        assert harness.running("us") == ["a"]
        await harness.answer("us")
        assert harness.running("us") == ["b"]


async def test_a_long_retry_after_pauses_only_its_backend() -> None:
    """Movable work waited although another region was free."""
    async with dispatch_harness() as harness:
        harness.submit("a", region="US")
        await harness.fail("us", busy(retry_after_s=7_200.0))
        pinned = harness.submit("pinned", region="EU", pinned=True)  # keeps the other region's slot for now
        await harness.clock.advance(2)
        assert harness.state("a") is InferenceState.QUEUED
        await harness.answer("eu")
        assert pinned.state is InferenceState.COMPLETED
        assert (harness.running("us"), harness.running("eu")) == ([], ["a"])


async def test_one_probe_follows_a_requested_pause() -> None:
    two_slots = topology([BackendSpec("us", "US", frozenset({"m"}), slots=2)])
    async with dispatch_harness(two_slots) as harness:
        for request in ("a", "b", "c"):
            harness.submit(request)
        await harness.fail("us", busy(retry_after_s=7_200.0))
        await harness.answer("us")  # that another run ends well there does not end the rest
        assert harness.running("us") == []
        await harness.clock.advance(300)  # and no longer than that
        assert harness.running("us") == ["a"]
        await harness.fail("us", busy(retry_after_s=20.0))
        assert harness.running("us") == []
        await harness.clock.advance(20)
        await harness.answer("us")
        assert harness.service.breakers.health("us") is Health.CLOSED


async def test_a_short_retry_after_is_covered_by_the_backoff() -> None:
    async with dispatch_harness(ONE_REGION) as harness:
        harness.submit("a")
        harness.submit("b")
        await harness.fail("us", busy(retry_after_s=1.0))
        assert harness.running("us") == ["b"]


async def test_a_permanent_failure_is_not_retried() -> None:
    async with dispatch_harness() as harness:
        inference = harness.submit("a")
        await harness.fail(
            "us", failure("backend_refused", retryable=False, counts_as_failure=False, status=400)
        )

        assert inference.state is InferenceState.FAILED
        assert inference.failure is not None
        assert not inference.failure.retryable
        await harness.clock.advance(100)
        assert len(harness.backends["us"].calls) + len(harness.backends["eu"].calls) == 1


async def test_a_retry_past_start_by_is_not_started() -> None:
    async with dispatch_harness() as harness:
        inference = harness.submit("a", start_by=1.5)
        await harness.fail("us", failure("backend_unavailable"))

        assert inference.state is InferenceState.FAILED
        assert inference.failure is not None
        assert inference.failure.code == "backend_unavailable"


async def test_backoff_holds_no_slot() -> None:
    async with dispatch_harness(ONE_REGION) as harness:
        harness.submit("a")
        harness.submit("b")
        await harness.fail("us", failure())

        assert harness.running("us") == ["b"]


async def test_consecutive_failures_open_the_breaker_and_one_probe_closes_it() -> None:
    async with dispatch_harness(ONE_REGION, attempts=1, breaker_failures=2) as harness:
        for request in ("a", "b"):
            harness.submit(request)
            await harness.fail("us", failure())
        assert harness.service.breakers.health("us") is Health.OPEN
        with pytest.raises(BackendsDownError) as refused:
            harness.submit("c")
        assert refused.value.retry_after_s == 15.0

        await harness.clock.advance(15)
        assert harness.service.breakers.health("us") is Health.HALF_OPEN
        harness.submit("c")
        harness.submit("d")
        await harness.settle()
        assert harness.running("us") == ["c"]
        await harness.answer("us")

        assert harness.service.breakers.health("us") is Health.CLOSED
        assert harness.running("us") == ["d"]


async def test_a_failed_probe_opens_it_again() -> None:
    async with dispatch_harness(ONE_REGION, attempts=1, breaker_failures=1) as harness:
        harness.submit("a")
        await harness.fail("us", failure())
        await harness.clock.advance(15)
        harness.submit("b")
        await harness.fail("us", failure())

        assert harness.service.breakers.health("us") is Health.OPEN
        await harness.clock.advance(14)
        assert harness.service.breakers.health("us") is Health.OPEN
        await harness.clock.advance(1)
        assert harness.service.breakers.health("us") is Health.HALF_OPEN


async def test_refusals_and_aborts_never_open_it() -> None:
    async with dispatch_harness(ONE_REGION, attempts=1, breaker_failures=1) as harness:
        harness.submit("refused")
        await harness.fail(
            "us", failure("backend_refused", retryable=False, counts_as_failure=False, status=422)
        )
        harness.submit("aborted")
        await harness.settle()
        harness.service.cancel(harness.get("aborted").id)
        await harness.settle()

        assert harness.service.breakers.health("us") is Health.CLOSED


async def test_an_aborted_probe_leaves_room_for_the_next() -> None:
    async with dispatch_harness(ONE_REGION, attempts=1, breaker_failures=1) as harness:
        harness.submit("a")
        await harness.fail("us", failure())
        await harness.clock.advance(15)
        harness.submit("probe")
        harness.submit("next")
        await harness.settle()
        harness.service.cancel(harness.get("probe").id)
        await harness.settle()

        assert harness.running("us") == ["next"]


async def test_movable_requests_leave_a_region_that_is_down() -> None:
    async with dispatch_harness(breaker_failures=1) as harness:
        harness.submit("running")
        movable = harness.submit("movable")
        pinned = harness.submit("pinned", pinned=True)
        await harness.fail("us", failure())
        await harness.answer("eu")

        assert movable.state is InferenceState.COMPLETED
        assert movable.actual_region == "EU"
        assert pinned.state is InferenceState.QUEUED


async def test_a_backend_whose_health_check_fails_gets_no_work() -> None:
    async with dispatch_harness(ONE_REGION) as harness:
        harness.submit("a")
        harness.submit("b")
        await harness.settle()
        harness.service.breakers.checked("us", up=False)
        await harness.answer("us")
        assert harness.running("us") == []

        harness.service.breakers.checked("us", up=True)
        await harness.settle()
        assert harness.running("us") == ["b"]


def refused_access() -> BackendError:
    message = "it does not accept the router's credentials (401)"
    return backend_fault("backend_unauthorized", message, status=401)


async def test_a_faulty_backend_holds_its_work_without_a_charge() -> None:
    async with dispatch_harness(ONE_REGION) as harness:
        first, second = harness.submit("a"), harness.submit("b")
        await harness.fail("us", refused_access())

        assert harness.running("us") == []
        assert (first.state, first.attempts) == (InferenceState.QUEUED, ())
        status = harness.service.breakers.describe("us")
        assert (status["state"], status["cause_code"]) == ("open", "backend_unauthorized")
        with pytest.raises(BackendsDownError, match="does not accept the router's credentials"):
            harness.submit("c")

        for _ in range(5):  # a probe each time, and more of them than attempts are allowed
            await harness.clock.advance(15)
            await harness.fail("us", refused_access())
        assert (first.attempts, second.state) == ((), InferenceState.QUEUED)
        await harness.clock.advance(15)
        await harness.answer("us")
        await harness.answer("us")
        assert {first.state, second.state} == {InferenceState.COMPLETED}
        assert harness.service.breakers.describe("us")["cause"] is None


async def test_work_moves_from_a_faulty_backend_to_another_region() -> None:
    async with dispatch_harness() as harness:
        movable, pinned = harness.submit("a"), harness.submit("b", pinned=True)
        await harness.fail("us", refused_access())

        assert harness.running("eu") == ["a"]
        await harness.answer("eu")
        assert (movable.state, movable.actual_region) == (InferenceState.COMPLETED, "EU")
        assert pinned.state is InferenceState.QUEUED
