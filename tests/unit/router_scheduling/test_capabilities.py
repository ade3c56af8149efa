"""Requests start only on backends with the capabilities that they need."""

import random

from beacon_router.scheduling import (
    BackendSpec,
    Health,
    Holdup,
    ModelSpec,
    Outcome,
    RegionSpec,
    Request,
    RequestId,
    Scheduler,
    Start,
    Topology,
)

A = frozenset("a")
TOOLS = frozenset({"tools"})
NONE: frozenset[str] = frozenset()
TOPOLOGY = Topology(
    (RegionSpec("US"), RegionSpec("EU")),
    (
        BackendSpec("us-plain", "US", A),
        BackendSpec("us-tools", "US", A, capabilities=TOOLS),
        BackendSpec("eu-plain", "EU", A, slots=2),
    ),
    (ModelSpec("a"),),
)
CAN = {backend.name: backend.capabilities for backend in TOPOLOGY.backends}


def _request(name: str, needs: frozenset[str], region: str = "US") -> Request:
    return Request(RequestId(name), "a", region, 0, needs=needs)


def _starts(scheduler: Scheduler, now: float) -> dict[str, str]:
    return {start.id: start.backend for start in scheduler.next(now) if isinstance(start, Start)}


def test_a_waiting_request_does_not_block_one_that_needs_less() -> None:
    scheduler = Scheduler(TOPOLOGY)
    for name in ("first", "second"):
        scheduler.submit(0.0, _request(name, TOOLS))
    scheduler.submit(0.0, _request("plain", NONE))

    assert _starts(scheduler, 0.0) == {"first": "us-tools", "plain": "us-plain"}
    assert scheduler.position(0.0, RequestId("second")) == 1
    scheduler.finished(1.0, RequestId("first"), Outcome.COMPLETED)
    assert _starts(scheduler, 1.0) == {"second": "us-tools"}


def test_a_region_without_a_capable_backend_passes_the_request_on() -> None:
    scheduler = Scheduler(TOPOLOGY)
    scheduler.submit(0.0, _request("moved", TOOLS, "EU"))

    assert _starts(scheduler, 0.0) == {"moved": "us-tools"}
    assert scheduler.eta_of_new(0.0, "a", "EU", 0, TOOLS) is None
    assert scheduler.eta_of_new(0.0, "a", "US", 0, TOOLS) is not None


def test_it_waits_for_the_only_capable_backend() -> None:
    scheduler = Scheduler(TOPOLOGY)
    scheduler.set_health("us-tools", Health.OPEN)
    scheduler.submit(0.0, _request("waits", TOOLS))

    assert _starts(scheduler, 0.0) == {}
    why = scheduler.why(0.0, RequestId("waits"))
    assert why is not None
    assert why.holdup is Holdup.BREAKER_OPEN


def test_random_work_never_starts_where_it_cannot_run() -> None:
    draw = random.Random(7)
    scheduler = Scheduler(TOPOLOGY)
    needs: dict[str, frozenset[str]] = {}
    running: dict[str, str] = {}
    now = 0.0
    for step in range(2_000):
        now = step / 10
        if draw.random() < 0.5:
            name = f"r{step}"
            needs[name] = draw.choice([TOOLS, NONE])
            scheduler.submit(now, _request(name, needs[name], draw.choice(["US", "EU"])))
        elif running:
            name = draw.choice(list(running))
            region = running.pop(name)
            failed = draw.random() < 0.3
            scheduler.finished(now, RequestId(name), Outcome.FAILED if failed else Outcome.COMPLETED)
            if failed:
                scheduler.retry(now, _request(name, needs[name], region), region)
        for decision in scheduler.next(now):
            assert isinstance(decision, Start)
            assert needs[decision.id] <= CAN[decision.backend]
            running[decision.id] = decision.region
    while running:
        now += 10.0
        for name in list(running):
            scheduler.finished(now, RequestId(name), Outcome.COMPLETED)
            del running[name]
        running |= {d.id: d.region for d in scheduler.next(now) if isinstance(d, Start)}
    assert scheduler.waiting() == 0
