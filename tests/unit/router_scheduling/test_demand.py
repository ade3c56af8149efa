"""How much of each shared limit a router requests."""

from dataclasses import replace

import pytest

from beacon_router.scheduling import (
    BackendSpec,
    Health,
    LimitName,
    ModelSpec,
    RegionSpec,
    Request,
    RequestId,
    Scheduler,
    Topology,
)

SLOTS, EXCLUSIVE, REGION = (LimitName(name) for name in ("slots:us-1", "exclusive:US:flux", "region:US"))
TOPOLOGY = Topology(
    regions=(RegionSpec("US", concurrency=3),),
    backends=(BackendSpec("us-1", "US", frozenset({"flux", "llama"}), slots=4, shared=True),),
    models=(ModelSpec("flux", exclusive=True), ModelSpec("llama")),
)


def test_a_slot_is_requested_after_the_token_of_an_exclusive_model() -> None:
    scheduler = router_without_tokens()
    submit(scheduler, "flux", "flux")

    assert wanted(scheduler) == {EXCLUSIVE: 1}
    scheduler.set_capacity(EXCLUSIVE, 1)
    assert wanted(scheduler) == {EXCLUSIVE: 1, SLOTS: 1}
    scheduler.set_capacity(SLOTS, 1)
    assert wanted(scheduler) == {EXCLUSIVE: 1, SLOTS: 1, REGION: 1}


def test_other_models_request_slots_while_one_has_no_token() -> None:
    scheduler = router_without_tokens()
    submit(scheduler, "flux", "flux", "llama")

    assert wanted(scheduler) == {EXCLUSIVE: 1, SLOTS: 1}


def test_the_token_of_a_model_is_requested_while_all_slots_are_busy() -> None:
    """Otherwise its requests are passed over whenever a slot becomes free."""
    scheduler = Scheduler(replace(TOPOLOGY, regions=(RegionSpec("US"),)))
    scheduler.set_capacity(EXCLUSIVE, 0)
    for number in range(8):
        scheduler.submit(0.0, Request(RequestId(f"busy {number}"), "llama", "US", rank=1))
    assert len(scheduler.next(0.0)) == 4
    submit(scheduler, "flux")

    assert wanted(scheduler)[EXCLUSIVE] == 1


@pytest.mark.parametrize("durable", [True, False])
def test_a_backend_that_is_down_needs_tokens_only_to_continue_runs(durable: bool) -> None:
    (gpu,) = TOPOLOGY.backends
    scheduler = Scheduler(replace(TOPOLOGY, backends=(replace(gpu, durable_runs=durable),)))
    for limit in TOPOLOGY.limits:
        scheduler.set_capacity(limit, 0)
    scheduler.set_health("us-1", Health.OPEN)
    submit(scheduler, "flux", "llama", "llama")
    assert wanted(scheduler) == {}

    scheduler.submit(0.0, Request(RequestId("continued"), "flux", "US", rank=1, backend="us-1"))
    for limit in (EXCLUSIVE, SLOTS, REGION):
        assert wanted(scheduler) == ({} if durable else wanted(scheduler) | {limit: 1})
        scheduler.set_capacity(limit, 1)

    assert [start.id for start in scheduler.next(0.0)] == ([] if durable else ["continued"])


def router_without_tokens() -> Scheduler:
    scheduler = Scheduler(TOPOLOGY)
    for limit in TOPOLOGY.limits:
        scheduler.set_capacity(limit, 0)
    return scheduler


def submit(scheduler: Scheduler, *models: str) -> None:
    for number, model in enumerate(models):
        scheduler.submit(0.0, Request(RequestId(f"r{number}"), model, "US", rank=0))
    assert scheduler.next(0.0) == []


def wanted(scheduler: Scheduler) -> dict[LimitName, int]:
    return {limit: tokens for limit, tokens in scheduler.demand().items() if tokens}
