"""Backends without an instance while they have no work: requests wait for the start and do not fail."""

from typing import Any

import orjson
import pytest

from beacon_config import LiveConfig, parse_document
from beacon_contracts.failures import FailureStage
from beacon_contracts.inference import InferenceState, RunProgress
from beacon_router.backends import BackendError
from beacon_router.backends.errors import backend_fault
from beacon_router.http.presenter import InferencePresenter
from beacon_router.scheduling import BackendSpec, Health
from beacon_router.service.errors import BackendsDownError
from tests.unit.router.dispatch_harness import DispatchHarness, dispatch_harness, failure, topology

ONE = topology([BackendSpec("us", "US", frozenset({"m"}), slots=2)])
REFUSED = BackendError(
    "backend_unreachable", FailureStage.TRANSPORT, True, "no connection", model_state_unknown=True
)
NO_NAME = backend_fault("dns_failed", "its host name cannot be resolved")


LIVE = LiveConfig(
    parse_document({"backends": {"us": {"dialect": "modal", "url": "http://us", "models": ["m"]}}}, {})
)


def shown(harness: DispatchHarness, request: str) -> Any:
    presenter = InferencePresenter(harness.service.scheduler, harness.service.breakers, harness.clock, LIVE)
    return orjson.loads(presenter.render(harness.get(request)))


@pytest.mark.parametrize(
    "error", [REFUSED, NO_NAME, failure(status=502), failure(status=503)], ids=lambda error: str(error.code)
)
async def test_a_request_waits_for_the_start_and_is_charged_no_attempt(error: BackendError) -> None:
    async with dispatch_harness(ONE, scale_to_zero=["us"]) as harness:
        inference = harness.submit("a")
        for _ in range(10):
            await harness.fail("us", error)
            view = shown(harness, "a")
            assert (view["state"], view["tries"]) == ("queued", [])
            assert view["waiting_for"] == "starting: us in US has no running instance yet"
            await harness.clock.advance(5)
        await harness.answer("us")
        assert inference.state is InferenceState.COMPLETED
        assert [attempt.outcome for attempt in inference.attempts] == ["completed"]


async def test_a_backend_that_starts_shows_no_fault() -> None:
    async with dispatch_harness(ONE, scale_to_zero=["us"]) as harness:
        harness.submit("a")
        await harness.fail("us", REFUSED)
        breakers = harness.service.breakers
        described = breakers.describe("us")
        assert (described["state"], described["cause_code"]) == ("starting", "starting")
        assert (described["failures_in_a_row"], described["health_check"]) == (0, "up")
        assert breakers.cause_codes() == {"us": "starting"}
        await harness.clock.advance(1)
        await harness.answer("us")
        assert breakers.describe("us")["state"] == Health.CLOSED
        assert breakers.cause_codes() == {}


async def test_one_request_at_a_time_probes_a_backend_that_starts() -> None:
    async with dispatch_harness(ONE, scale_to_zero=["us"]) as harness:
        for name in ("a", "b", "c"):
            harness.submit(name)
        await harness.settle()
        assert len(harness.running("us")) == 2
        for _ in range(2):  # neither found an instance: this is one start
            await harness.fail("us", REFUSED)
        await harness.clock.advance(0.9)
        assert harness.running("us") == []
        await harness.clock.advance(0.2)
        assert len(harness.running("us")) == 1
        await harness.answer("us")
        assert len(harness.running("us")) == 2


async def test_a_probe_is_shown_as_waiting_until_its_backend_reports() -> None:
    async with dispatch_harness(ONE, scale_to_zero=["us"]) as harness:
        harness.submit("a")
        await harness.fail("us", REFUSED)
        await harness.clock.advance(1)
        assert harness.running("us") == ["a"]
        view = shown(harness, "a")
        assert (view["state"], view["waiting_for"][:9]) == ("queued", "starting:")
        harness.backends["us"].open[0].observer.running()
        assert shown(harness, "a")["state"] == "warming"
        harness.backends["us"].open[0].observer.progressed(RunProgress(percent=5.0))
        assert shown(harness, "a")["state"] == "running", "the model is loaded"
        await harness.answer("us")


async def test_new_requests_are_accepted_while_the_only_backend_starts() -> None:
    async with dispatch_harness(ONE, scale_to_zero=["us"]) as harness:
        harness.submit("a")
        await harness.fail("us", REFUSED)
        harness.submit("b")
        assert harness.state("b") is InferenceState.QUEUED


async def test_other_backends_are_refused_while_they_are_down() -> None:
    async with dispatch_harness(ONE) as harness:
        inference = harness.submit("a")
        await harness.fail("us", NO_NAME)
        assert inference.state is InferenceState.QUEUED
        with pytest.raises(BackendsDownError):
            harness.submit("b")


async def test_movable_work_runs_where_an_instance_is() -> None:
    async with dispatch_harness(scale_to_zero=["us"]) as harness:
        inference = harness.submit("a", region="US")
        await harness.fail("us", REFUSED)
        assert harness.running("eu") == ["a"]
        await harness.answer("eu")
        assert inference.actual_region == "EU"


async def test_another_failure_of_a_starting_backend_is_an_attempt() -> None:
    async with dispatch_harness(ONE, scale_to_zero=["us"]) as harness:
        inference = harness.submit("a")
        await harness.fail("us", REFUSED)
        await harness.clock.advance(1)
        await harness.fail("us", failure("backend_error", status=500, retryable=False))
        assert inference.state is InferenceState.FAILED
        assert len(inference.attempts) == 1
        assert harness.service.breakers.describe("us")["state"] == Health.CLOSED


async def test_a_request_that_waits_for_a_start_can_be_cancelled() -> None:
    async with dispatch_harness(ONE, scale_to_zero=["us"]) as harness:
        inference = harness.submit("a")
        await harness.fail("us", REFUSED)
        harness.service.cancel(inference.id)
        assert inference.state is InferenceState.CANCELLED
        await harness.clock.advance(60)
        assert harness.running("us") == []
        harness.submit("b")
        await harness.settle()
        assert harness.running("us") == ["b"], "the next request probes at once"
        await harness.answer("us")
