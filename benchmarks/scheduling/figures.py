"""What a simulated run comes to: waits, GPU time, fairness, and how well waits were foretold."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

from benchmarks.harness.statistics import percentile
from benchmarks.scheduling.simulator import Seen
from benchmarks.scheduling.workload import TIERS


@dataclass(frozen=True, slots=True)
class Waits:
    """Of one tier, in seconds."""

    p50: float
    p95: float
    p99: float
    worst: float


@dataclass(frozen=True, slots=True)
class Figures:
    waits: dict[str, Waits]
    """By tier; a tier that asked for nothing has none."""
    makespan_s: float
    busy: float
    """The share of GPU time in use, loads included."""
    switches: int
    lost_s: float
    """GPU time spent on loads."""
    fairness: float


@dataclass(frozen=True, slots=True)
class Foretold:
    """Of those that had to wait, what was said when they came against what came."""

    count: int
    of_each_wait: float
    """The median of |said - waited| / waited."""
    of_the_mean_wait: float
    """The median of |said - waited|, over the mean wait."""
    covered: float
    """The share that started before the p90 estimate."""


def figures(seen: Sequence[Seen], gpus: int) -> Figures:
    waits = {tier: [one.wait_s for one in seen if one.arrival.tier == tier] for tier in TIERS}
    return Figures(
        waits={
            tier: Waits(*(percentile(values, share) for share in (50, 95, 99, 100)))
            for tier, values in waits.items()
            if values
        },
        makespan_s=makespan(seen),
        busy=busy_share(seen, gpus),
        switches=sum(one.load_s > 0 for one in seen),
        lost_s=sum(one.load_s for one in seen),
        fairness=fairness(seen),
    )


def makespan(seen: Sequence[Seen]) -> float:
    return max(one.ended_s for one in seen) - min(one.arrival.arrival_s for one in seen)


def busy_share(seen: Sequence[Seen], gpus: int) -> float:
    used = sum(one.load_s + one.arrival.run_s for one in seen)
    return used / (gpus * makespan(seen))


def offered_load(seen: Sequence[Seen], gpus: int) -> float:
    """GPU time that was used, over what there was while requests came: above 1, queues only grow."""
    used = sum(one.load_s + one.arrival.run_s for one in seen)
    return used / (gpus * (seen[-1].arrival.arrival_s - seen[0].arrival.arrival_s))


def jain(shares: Sequence[float]) -> float:
    """Jain's index: 1 when all have the same, 1/n when one has everything."""
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else 1.0


def fairness(seen: Sequence[Seen]) -> float:
    """Jain's index of what tenants of a tier get, and of this the mean over tiers by their tenants.

    A tenant gets the share of its requests' time in the system in which they ran.
    """
    ran: dict[tuple[str, str], float] = defaultdict(float)
    stayed: dict[tuple[str, str], float] = defaultdict(float)
    for one in seen:
        tenant = (one.arrival.tier, one.arrival.tenant)
        ran[tenant] += one.arrival.run_s
        stayed[tenant] += one.ended_s - one.arrival.arrival_s
    shares: dict[str, list[float]] = defaultdict(list)
    for tenant, seconds in ran.items():
        shares[tenant[0]].append(seconds / stayed[tenant])
    return sum(jain(of_tier) * len(of_tier) for of_tier in shares.values()) / len(ran)


def foretold(seen: Sequence[Seen]) -> Foretold | None:
    """None when nobody waited."""
    pairs = [(one.eta, one.wait_s) for one in seen if one.eta is not None and one.wait_s > 0]
    if not pairs:
        return None
    errors = [abs(eta.p50_s - wait_s) for eta, wait_s in pairs]
    return Foretold(
        count=len(pairs),
        of_each_wait=median(error / wait_s for error, (_, wait_s) in zip(errors, pairs, strict=True)),
        of_the_mean_wait=median(errors) / fmean(wait_s for _, wait_s in pairs),
        covered=sum(wait_s <= eta.p90_s for eta, wait_s in pairs) / len(pairs),
    )
