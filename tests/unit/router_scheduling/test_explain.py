"""The reason for a wait names what the request really waits for."""

from beacon_router.scheduling import (
    BackendSpec,
    GroupSpec,
    Holdup,
    ModelSpec,
    Outcome,
    RegionSpec,
    Request,
    RequestId,
    Scheduler,
    Topology,
)
from beacon_router.scheduling.state.topology import group_limit, slots_limit

A = frozenset("a")


def _holdup(scheduler: Scheduler, name: str, now: float = 0.0) -> Holdup:
    why = scheduler.why(now, RequestId(name))
    assert why is not None
    return why.holdup


def _submit(scheduler: Scheduler, name: str, region: str = "US", now: float = 0.0) -> Request:
    request = Request(RequestId(name), "a", region, 0)
    scheduler.submit(now, request)
    scheduler.next(now)
    return request


def test_a_retry_next_to_a_free_slot_waits_for_another_region() -> None:
    backends = (BackendSpec("us", "US", A), BackendSpec("eu", "EU", A))
    scheduler = Scheduler(Topology((RegionSpec("US"), RegionSpec("EU")), backends, (ModelSpec("a"),)))
    _submit(scheduler, "eu busy", "EU")
    failed = _submit(scheduler, "failed")
    scheduler.finished(1.0, failed.id, Outcome.FAILED)
    scheduler.retry(1.0, failed, "US")

    assert scheduler.next(1.0) == []
    assert _holdup(scheduler, "failed", 1.0) is Holdup.RETRY_ELSEWHERE
    assert "another region" in str(scheduler.why(1.0, RequestId("failed")))


def test_slots_that_other_routers_hold_are_not_a_group_cap() -> None:
    backends = (BackendSpec("us", "US", A, slots=2, shared=True),)
    scheduler = Scheduler(Topology((RegionSpec("US"),), backends, (ModelSpec("a"),)))
    scheduler.set_capacity(slots_limit("us"), 0)
    _submit(scheduler, "waits")

    assert _holdup(scheduler, "waits") is Holdup.SHARED_SLOTS


def test_a_used_up_group_is_a_group_cap() -> None:
    backends = (BackendSpec("us", "US", A, slots=2, group="cloud", shared=True),)
    topology = Topology((RegionSpec("US"),), backends, (ModelSpec("a"),), (GroupSpec("cloud", 1),))
    scheduler = Scheduler(topology)
    scheduler.set_capacity(group_limit("cloud"), 0)
    _submit(scheduler, "waits")

    assert _holdup(scheduler, "waits") is Holdup.GROUP_CAP


def test_a_request_waits_for_a_warm_backend_only_if_the_policy_decided_so() -> None:
    """In US a retry waits for EU; a request of another model is behind the only slot of its backend."""
    models = (ModelSpec("a"), ModelSpec("b"))
    backends = (
        BackendSpec("us-a", "US", frozenset("a")),
        BackendSpec("us-ab", "US", frozenset("ab")),
        BackendSpec("eu", "EU", frozenset("ab")),
    )
    scheduler = Scheduler(Topology((RegionSpec("US", concurrency=1), RegionSpec("EU")), backends, models))
    _submit(scheduler, "eu busy", "EU")
    failed = _submit(scheduler, "failed")
    scheduler.finished(1.0, failed.id, Outcome.FAILED)
    scheduler.retry(1.0, failed, "US")
    _submit(scheduler, "runs", now=1.0)
    _submit(scheduler, "waits", now=1.0)

    assert _holdup(scheduler, "waits", 1.0) is Holdup.REGION_FULL
