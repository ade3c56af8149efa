"""The region of a request that names none: the shortest wait."""

from typing import Any

import pytest

from beacon_router.scheduling import RequestId, Scheduler
from beacon_router.service.inference import InferenceSpec
from beacon_router.service.region_choice import RegionChoice
from tests.unit.router.dispatch_harness import DispatchHarness, dispatch_harness

NOTHING: frozenset[str] = frozenset()


class CountedForecasts:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.regions: list[str] = []
        original = Scheduler.eta_of_new

        def counted(scheduler: Scheduler, now: float, model: str, region: str, *given: Any) -> Any:
            self.regions.append(region)
            return original(scheduler, now, model, region, *given)

        monkeypatch.setattr(Scheduler, "eta_of_new", counted)


@pytest.fixture
def forecasts(monkeypatch: pytest.MonkeyPatch) -> CountedForecasts:
    return CountedForecasts(monkeypatch)


def nearest(harness: DispatchHarness, model: str = "m") -> str:
    service = harness.service
    return RegionChoice(service.scheduler, service.breakers, service.clock).shortest_wait(model, 4, NOTHING)


async def load(harness: DispatchHarness, backend: str, model: str = "m") -> None:
    harness.submit(f"warms {backend}", region=backend.upper(), model=model, pinned=True)
    await harness.answer(backend)


async def test_a_free_region_with_the_model_loaded_needs_no_forecast(forecasts: CountedForecasts) -> None:
    async with dispatch_harness() as harness:
        await load(harness, "us")

        assert nearest(harness) == "US"
        assert forecasts.regions == []


async def test_a_busy_region_is_passed_over_for_a_free_one(forecasts: CountedForecasts) -> None:
    async with dispatch_harness() as harness:
        await load(harness, "us")
        await load(harness, "eu")
        harness.submit("busy", pinned=True)

        assert nearest(harness) == "EU"
        assert forecasts.regions == []


async def test_a_free_region_without_the_model_is_forecast(forecasts: CountedForecasts) -> None:
    async with dispatch_harness() as harness:
        await load(harness, "us", model="n")

        assert nearest(harness, "m") == "US"
        assert forecasts.regions[0] == "US"


async def test_a_free_region_with_the_model_loaded_is_preferred(forecasts: CountedForecasts) -> None:
    async with dispatch_harness() as harness:
        await load(harness, "us", model="n")
        await load(harness, "eu")

        assert nearest(harness) == "EU", "the model would have to be loaded in US"
        assert forecasts.regions == []


async def test_the_shorter_of_two_waits_is_chosen() -> None:
    async with dispatch_harness() as harness:
        await load(harness, "us")
        await load(harness, "eu")
        harness.submit("busy in eu", region="EU", pinned=True)
        await harness.clock.advance(0.1)
        harness.submit("busy in us", region="US", pinned=True)

        assert nearest(harness) == "EU"


async def test_requests_that_come_together_do_not_choose_the_same_slot(forecasts: CountedForecasts) -> None:
    async with dispatch_harness() as harness:
        await load(harness, "us")
        await load(harness, "eu")
        harness.service.accept(InferenceSpec(RequestId("not dispatched yet"), "m", "US", 4, b"{}"))

        assert nearest(harness) == "EU"
        assert forecasts.regions == []
