"""The counts of a snapshot agree."""

from beacon_router.scheduling import (
    BackendSpec,
    Health,
    ModelSpec,
    Outcome,
    Reason,
    RegionSnapshot,
    RegionSpec,
    Request,
    RequestId,
    Scheduler,
    Start,
    Topology,
)

TOPOLOGY = Topology(
    regions=(RegionSpec("US"),),
    backends=(BackendSpec("us", "US", frozenset({"m", "n"}), slots=1),),
    models=(ModelSpec("m"), ModelSpec("n")),
    groups=(),
)


def test_all_counts_of_waiting_requests_agree() -> None:
    scheduler = Scheduler(TOPOLOGY)
    for name, rank in (("runs", 4), ("waits", 4), ("pays later", 3)):
        scheduler.submit(0, request(name, rank))
    scheduler.submit(0, request("paid", 2, front=True))
    scheduler.retry(0, request("failed once", 1, pinned=True), "US")
    scheduler.retry(0, request("failed, may move", 0), "US")
    scheduler.to_front(RequestId("pays later"))

    assert counted(scheduler) == (0, 1, 1, 1, 2)
    scheduler.next(0)  # the movable one starts first
    scheduler.cancel(RequestId("paid"))
    assert counted(scheduler) == (0, 1, 0, 1, 2)


def test_backends_show_the_batch_of_their_set_and_the_last_dispatch() -> None:
    names = frozenset({"m", "n"})
    pair = tuple(BackendSpec(name, "US", names) for name in ("one", "two"))
    scheduler = Scheduler(Topology(TOPOLOGY.regions, pair, TOPOLOGY.models))
    for number, model in enumerate("mmmnm"):
        scheduler.submit(0, Request(RequestId(f"r{number}"), model, "US", 4))
    scheduler.next(0)  # the first two run, both with a load
    scheduler.finished(1, RequestId("r1"), Outcome.COMPLETED, run_s=1)
    scheduler.next(1)  # r2: loaded, and its turn
    scheduler.finished(2, RequestId("r2"), Outcome.COMPLETED, run_s=1)
    (start,) = scheduler.next(2)  # r4 starts before r3, which needs a load

    backends = scheduler.snapshot(2).regions[0].backends

    assert start == Start(RequestId("r4"), "two", "US", needs_load=False, reason=Reason.AFFINITY, moved=False)
    assert [backend.batch for backend in backends] == [1, 1]
    assert max(backends, key=lambda backend: backend.used_at).name == "two"


def request(name: str, rank: int, *, pinned: bool = False, front: bool = False) -> Request:
    return Request(RequestId(name), "m" if rank % 2 else "n", "US", rank, pinned, front)


def counted(scheduler: Scheduler) -> tuple[int, ...]:
    """By rank, after a check of the other sums."""
    region: RegionSnapshot = scheduler.snapshot(0).regions[0]
    assert sum(region.by_rank) == sum(region.by_model.values()) == region.main + region.retry
    return region.by_rank


def test_a_user_who_waits_for_an_open_breaker_has_no_forecast() -> None:
    backend = BackendSpec("us-1", "US", frozenset({"a"}))
    scheduler = Scheduler(Topology((RegionSpec("US"),), (backend,), (ModelSpec("a"),)))
    scheduler.set_health("us-1", Health.OPEN)
    scheduler.submit(0.0, Request(RequestId("r1"), "a", "US", 0, user="anna"))

    (region,) = scheduler.snapshot(0.0).regions

    assert region.by_user[0] == {"anna": {}}


def test_work_is_counted_once_by_model_and_with_measured_durations() -> None:
    regions = (RegionSpec("US"), RegionSpec("EU"))
    both = tuple(BackendSpec(name.lower(), name, frozenset({"m"}), slots=2) for name in ("US", "EU"))
    scheduler = Scheduler(Topology(regions, both, (ModelSpec("m", 3.0, 10.0),)))
    for number in range(4):
        scheduler.submit(0, Request(RequestId(f"r{number}"), "m", "US", 0, pinned=True))
    scheduler.next(0)  # two run, both with the load
    scheduler.retry(0, Request(RequestId("moves"), "m", "EU", 0), "EU")
    scheduler.submit(0, Request(RequestId("asks"), "m", "EU", 0))

    us, eu = (region.work["m"] for region in scheduler.snapshot(0).regions)

    assert (us.waiting, us.running, us.slots) == (2, 2, 2)
    assert us.ahead_s == 2 * 10.0 + 2 * 13.0
    assert (eu.waiting, eu.running, eu.ahead_s) == (2, 0, 20.0)
    scheduler.finished(20, RequestId("r0"), Outcome.COMPLETED, load_s=3, run_s=20)
    (us, _) = (region.work["m"] for region in scheduler.snapshot(20).regions)
    assert us.run_s > 10.0
    scheduler.set_health("us", Health.OPEN)
    assert scheduler.snapshot(20).regions[0].work["m"].slots == 0
