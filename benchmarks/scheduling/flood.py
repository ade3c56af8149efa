"""One user floods a tier: waits and GPU time of the other users."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from beacon_router.scheduling import Fairness, Policy, Scheduler, Topology
from benchmarks.scheduling.baselines import LeastAttained
from benchmarks.scheduling.figures import jain
from benchmarks.scheduling.scenarios import MODELS, topology_for
from benchmarks.scheduling.simulator import RequestRecord, Simulator
from benchmarks.scheduling.workload import Arrival, WorkloadGenerator, model_catalogue

FLOOD, SMALL_USERS, SMALL_REQUESTS = 2_000, 9, 40
BULK = "bulk"
SMALL_ARRIVE_S = 60.0


@dataclass(frozen=True, slots=True)
class FloodFigures:
    jain: float
    """Over GPU seconds of the users, while all of them have waiting requests."""
    dispatches_before_small: int
    """Starts between the arrival of the small users and the first start of one of them."""
    small_wait_s: float
    """Their mean wait."""
    loads: int


def measure_flood(seed: int) -> dict[str, FloodFigures]:
    """By policy; the ideal server shares GPU time fairly and loads models in no time."""
    arrivals = flood_arrivals(seed)
    topology = topology_for(arrivals, model_catalogue(MODELS, seed))
    free_loads = replace(
        topology, models=tuple(replace(model, expected_load_s=0.0) for model in topology.models)
    )
    fifo = Scheduler(topology, Policy(fairness=Fairness.FIFO))
    return {
        "Beacon": _figures(Simulator(topology, Scheduler(topology)).run(arrivals)),
        'Beacon, fairness = "fifo"': _figures(Simulator(topology, fifo).run(arrivals)),
        "ideal fair server": _figures(_ideal(free_loads, arrivals)),
    }


def flood_arrivals(seed: int) -> list[Arrival]:
    """2,000 requests of one user at once; a minute later 40 of each of nine others; one tier and region."""
    generator = WorkloadGenerator(model_catalogue(MODELS, seed), seed)

    def request(at: float, user: str) -> Arrival:
        return replace(generator.arrival(at), tenant=user, tier="free", region="US")

    flood = [request(0.0, BULK) for _ in range(FLOOD)]
    small = [
        request(SMALL_ARRIVE_S, f"small-{user}") for _ in range(SMALL_REQUESTS) for user in range(SMALL_USERS)
    ]
    return flood + small


def _ideal(topology: Topology, arrivals: Sequence[Arrival]) -> list[RequestRecord]:
    return Simulator(topology, LeastAttained(topology)).run(arrivals)


def _figures(records: Sequence[RequestRecord]) -> FloodFigures:
    small = [one for one in records if one.arrival.tenant != BULK]
    starts = [one for one in records if one.started_s >= SMALL_ARRIVE_S]
    last: dict[str, float] = defaultdict(float)
    for one in records:
        last[one.arrival.tenant] = max(last[one.arrival.tenant], one.started_s)
    until_s = min(last.values())
    used: dict[str, float] = dict.fromkeys(last, 0.0)
    for one in records:
        began_s = max(SMALL_ARRIVE_S, one.started_s + one.load_s)
        used[one.arrival.tenant] += max(0.0, min(until_s, one.ended_s) - began_s)
    return FloodFigures(
        jain=jain(list(used.values())),
        dispatches_before_small=starts.index(small[0]),
        small_wait_s=fmean(one.wait_s for one in small),
        loads=sum(one.load_s > 0 for one in records),
    )
