"""The timelines of the systems that Beacon replaces, second by second, in virtual time."""

from collections.abc import Iterable

import pytest

from beacon_router.scheduling import (
    BackendSpec,
    ModelSpec,
    Outcome,
    Reason,
    RegionSpec,
    Request,
    RequestId,
    Scheduler,
    Start,
    Topology,
)
from benchmarks.scheduling.simulator import Simulator
from benchmarks.scheduling.workload import TIERS, Arrival

FREE, ADMIN = TIERS.index("free"), TIERS.index("admin")


def image_service() -> Topology:
    """Flux and SDXL run concurrently, one request each."""
    names = ("flux", "sdxl")
    models = tuple(ModelSpec(name, expected_load_s=0, expected_run_s=15, exclusive=True) for name in names)
    backends = tuple(BackendSpec(f"{name}-gpu", "US", frozenset({name}), slots=10) for name in names)
    return Topology(regions=(RegionSpec("US"),), models=models, backends=backends)


def sound_service() -> Topology:
    """One GPU that holds one model at a time."""
    models = tuple(ModelSpec(name, expected_load_s=3, expected_run_s=10) for name in ("music", "audio"))
    backend = BackendSpec("gpu", "US", frozenset({"music", "audio"}))
    return Topology(regions=(RegionSpec("US"),), models=models, backends=(backend,))


def arrivals(model: str, *moments: float, tier: str = "free", run_s: float = 15.0) -> list[Arrival]:
    return [Arrival(moment, "user", model, tier, "US", run_s) for moment in moments]


def starts(topology: Topology, *arrivals: Arrival) -> list[float]:
    """The start of each arrival, in the given order."""
    records = Simulator(topology, Scheduler(topology)).run(sorted(arrivals, key=lambda one: one.arrival_s))
    began = {id(record.arrival): record.started_s for record in records}
    return [began[id(arrival)] for arrival in arrivals]


class SchedulerDriver:
    """A scheduler whose runs end when the test ends them."""

    def __init__(self, topology: Topology) -> None:
        self.scheduler = Scheduler(topology)
        self.now = 0.0

    def submit(
        self,
        name: str,
        model: str,
        rank: int = FREE,
        *,
        region: str = "US",
        front: bool = False,
        pinned: bool = False,
    ) -> Request:
        request = Request(RequestId(name), model, region, rank, pinned, front)
        self.scheduler.submit(self.now, request)
        return request

    def started(self) -> list[tuple[str, Reason]]:
        return [
            (start.id, start.reason) for start in self.scheduler.next(self.now) if isinstance(start, Start)
        ]

    def over(self, name: str, outcome: Outcome = Outcome.COMPLETED) -> list[tuple[str, Reason]]:
        """End a run; returns what starts then."""
        self.scheduler.finished(self.now, RequestId(name), outcome, load_s=None, run_s=10.0)
        return self.started()

    def positions(self, names: Iterable[str]) -> list[int | None]:
        return [self.scheduler.position(self.now, RequestId(name)) for name in names]


def test_requests_of_a_model_run_in_order_of_arrival() -> None:
    assert starts(image_service(), *arrivals("flux", 0, 2, 5)) == [0, 15, 30]


def test_exclusive_models_do_not_wait_for_each_other() -> None:
    """Flux-A, SDXL-B, Flux-C, SDXL-D: C waits for A, not for B."""
    flux, sdxl = arrivals("flux", 0, 2, run_s=10), arrivals("sdxl", 1, 3, run_s=15)
    assert starts(image_service(), *flux, *sdxl) == [0, 10, 1, 16]


def test_the_last_of_ten_flux_requests_waits_for_nine() -> None:
    assert starts(image_service(), *arrivals("flux", *[0] * 10)) == [15.0 * place for place in range(10)]


def test_five_of_each_model_end_at_the_same_time() -> None:
    ten = [*arrivals("flux", *[0] * 5), *arrivals("sdxl", *[0] * 5)]
    assert starts(image_service(), *ten) == [0, 15, 30, 45, 60] * 2


def test_positions_count_waiting_requests_and_decrease() -> None:
    driver = SchedulerDriver(image_service())
    for name in "ABCD":
        driver.submit(name, "flux")
    assert driver.positions("ABCD") == [1, 2, 3, 4]
    assert [name for name, _ in driver.started()] == ["A"]
    assert driver.positions("ABCD") == [None, 1, 2, 3]
    assert driver.started() == [], "only one runs, and only the first may be next"
    for moment, ended, following, positions in [
        (15.0, "A", "B", [None, None, 1, 2]),
        (30.0, "B", "C", [None, None, None, 1]),
        (45.0, "C", "D", [None, None, None, None]),
    ]:
        driver.now = moment
        assert [name for name, _ in driver.over(ended)] == [following]
        assert driver.positions("ABCD") == positions


def test_tiers_are_served_by_rank_and_inside_a_tier_by_arrival() -> None:
    driver = SchedulerDriver(sound_service())
    driver.submit("running", "audio")
    driver.started()
    wanted = [f"{tier}-{number}" for tier in TIERS for number in (1, 2)]
    for tier in reversed(TIERS):
        for number in (1, 2):
            driver.submit(f"{tier}-{number}", "audio", TIERS.index(tier))
    served, ended = [], "running"
    for _ in wanted:
        ((ended, _),) = driver.over(ended)
        served.append(ended)
    assert served == wanted


def test_a_loaded_model_is_preferred_three_times() -> None:
    driver = SchedulerDriver(sound_service())
    driver.submit("audio-0", "audio")
    driver.started()
    driver.submit("music", "music")
    for number in range(1, 7):
        driver.submit(f"audio-{number}", "audio")
    served, ended = [], "audio-0"
    for _ in range(4):
        ((ended, reason),) = driver.over(ended)
        served.append((ended, reason))
    assert served[:3] == [(f"audio-{number}", Reason.AFFINITY) for number in (1, 2, 3)]
    assert served[3][0] == "music"


@pytest.mark.parametrize(("waited_s", "switches"), [(70, True), (20, False)])
def test_a_request_past_its_bound_forces_the_switch_after_a_batch(waited_s: float, switches: bool) -> None:
    """Premium starves after 60 s. Then at most one turn of the higher tier and three requests for the loaded
    model start before it; until then all of the higher tier do."""
    driver = SchedulerDriver(sound_service())
    driver.submit("audio-0", "audio", TIERS.index("creator"))
    driver.started()
    driver.submit("music", "music", TIERS.index("premium"))
    driver.now = waited_s
    for number in range(1, 9):
        driver.submit(f"audio-{number}", "audio", TIERS.index("creator"))
    served, ended = {}, "audio-0"
    for _ in range(5):
        ((ended, reason),) = driver.over(ended)
        served[ended] = reason
    assert served.get("music") is (Reason.STARVATION if switches else None)


def test_a_paid_request_is_served_before_admins_whatever_model_is_loaded() -> None:
    driver = SchedulerDriver(sound_service())
    driver.submit("running", "audio", ADMIN)
    driver.started()
    for number in range(3):
        driver.submit(f"admin-{number}", "audio", ADMIN)
    driver.submit("paid", "music", FREE, front=True)
    assert driver.started() == [], "what runs is not disturbed"
    assert driver.positions(["paid"]) == [1]
    assert driver.over("running") == [("paid", Reason.FRONT)]


def test_global_retries_precede_region_retries_and_these_new_requests() -> None:
    topology = Topology(
        regions=(RegionSpec("US", concurrency=1), RegionSpec("EU")),
        models=(ModelSpec("llama", expected_load_s=0, expected_run_s=1),),
        backends=tuple(
            BackendSpec(f"{region}-1", region, frozenset({"llama"}), slots=4) for region in ("US", "EU")
        ),
    )
    driver = SchedulerDriver(topology)
    pinned, moves = (
        driver.submit("pinned", "llama", pinned=True),
        driver.submit("moves", "llama", region="EU"),
    )
    driver.started()
    driver.over("pinned", Outcome.FAILED)
    driver.over("moves", Outcome.FAILED)
    driver.submit("running", "llama", pinned=True)
    assert [name for name, _ in driver.started()] == ["running"], "a region with concurrency 1 runs one"
    driver.submit("new", "llama", ADMIN)
    driver.scheduler.retry(driver.now, pinned, "US")
    driver.scheduler.retry(driver.now, moves, "EU")
    assert driver.over("running") == [("moves", Reason.GLOBAL_RETRY)]
    assert driver.over("moves") == [("pinned", Reason.REGION_RETRY)]
    assert [name for name, _ in driver.over("pinned")] == ["new"]


def test_an_exclusive_model_runs_ten_requests_sequentially() -> None:
    models = (ModelSpec("image_gen", expected_load_s=0, expected_run_s=300, limit=1),)
    backends = (BackendSpec("gpu", "US", frozenset({"image_gen"}), slots=10),)
    topology = Topology(regions=(RegionSpec("US"),), models=models, backends=backends)
    ten = arrivals("image_gen", *[0] * 10, run_s=300)
    assert starts(topology, *ten) == [300.0 * place for place in range(10)]
