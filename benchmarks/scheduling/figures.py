"""Figures of a simulated run: waits, GPU time, estimates, the starvation bound, violations."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

from beacon_router.scheduling import Policy
from benchmarks.harness.statistics import percentile
from benchmarks.scheduling.simulator import RequestRecord
from benchmarks.scheduling.workload import TIERS

TOP_TIERS = TIERS[:2]


@dataclass(frozen=True, slots=True)
class Figures:
    p95: dict[str, float]
    """Seconds of wait by tier; a tier without requests has none."""
    worst: dict[str, float]
    top_p95: float
    """Of the two top tiers together."""
    start_s: float
    """Mean seconds until the run begins: the wait and the request's own load."""
    loads: int
    lost_s: float
    """GPU seconds spent on loads."""
    busy: float
    """GPU time used, of what there was while requests arrived."""
    fifo_violations: int


@dataclass(frozen=True, slots=True)
class EtaAccuracy:
    """Of the requests that had to wait: the estimate at arrival compared with the wait."""

    count: int
    of_each_wait: float
    """The median of |estimate - wait| / wait."""
    of_the_mean_wait: float
    """The median of |estimate - wait|, over the mean wait."""
    under_p90: float


def figures(records: Sequence[RequestRecord], gpus: int) -> Figures:
    waits = {tier: [one.wait_s for one in records if one.arrival.tier == tier] for tier in TIERS}
    top = [wait_s for tier in TOP_TIERS for wait_s in waits[tier]]
    return Figures(
        p95={tier: percentile(values, 95) for tier, values in waits.items() if values},
        worst={tier: max(values) for tier, values in waits.items() if values},
        top_p95=percentile(top, 95) if top else 0.0,
        start_s=fmean(one.wait_s + one.load_s for one in records),
        loads=sum(one.load_s > 0 for one in records),
        lost_s=sum(one.load_s for one in records),
        busy=offered_load(records, gpus),
        fifo_violations=fifo_violations(records),
    )


def offered_load(records: Sequence[RequestRecord], gpus: int) -> float:
    """GPU time used, over what there was while requests arrived: above 1, queues only grow."""
    used = sum(one.load_s + one.arrival.run_s for one in records)
    moments = [one.arrival.arrival_s for one in records]
    return used / (gpus * (max(moments) - min(moments)))


def jain(shares: Sequence[float]) -> float:
    """Jain's index: 1 when all are equal, 1/n when one has all."""
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else 1.0


def eta_accuracy(records: Sequence[RequestRecord]) -> EtaAccuracy | None:
    """None when no request waited."""
    pairs = [(one.eta, one.wait_s) for one in records if one.eta is not None and one.wait_s > 0]
    if not pairs:
        return None
    errors = [abs(eta.p50_s - wait_s) for eta, wait_s in pairs]
    return EtaAccuracy(
        count=len(pairs),
        of_each_wait=median(error / wait_s for error, (_, wait_s) in zip(errors, pairs, strict=True)),
        of_the_mean_wait=median(errors) / fmean(wait_s for _, wait_s in pairs),
        under_p90=sum(wait_s <= eta.p90_s for eta, wait_s in pairs) / len(pairs),
    )


def fifo_violations(records: Sequence[RequestRecord]) -> int:
    """Starts before an earlier request of the same user, model, tier and region."""
    latest: dict[tuple[str, str, str, str], float] = {}
    violations = 0
    for one in records:  # in the order of the starts
        arrival = one.arrival
        key = (arrival.region, arrival.tenant, arrival.model, arrival.tier)
        violations += arrival.arrival_s < latest.get(key, 0.0)
        latest[key] = max(arrival.arrival_s, latest.get(key, 0.0))
    return violations


def dispatches_past_bound(records: Sequence[RequestRecord], policy: Policy) -> dict[str, int]:
    """By tier, the most dispatches of other tiers in a region while any request of it was past its bound."""
    worst: dict[str, int] = defaultdict(int)
    for region in {one.arrival.region for one in records}:
        started = [one for one in records if one.arrival.region == region]
        for tier, rule in zip(TIERS, policy.tiers, strict=True):
            bound_s, passed = rule.starvation_bound_s, 0
            oldest = _oldest_waiting(started, tier)
            for one, oldest_s in zip(started, oldest, strict=True):
                starving = oldest_s is not None and oldest_s + bound_s <= one.started_s
                passed = passed + 1 if starving and one.arrival.tier != tier else 0
                worst[tier] = max(worst[tier], passed)
    return dict(worst)


def _oldest_waiting(started: Sequence[RequestRecord], tier: str) -> list[float | None]:
    """Per start, when the oldest request of the tier arrived that has not started before it."""
    oldest: list[float | None] = []
    left: float | None = None
    for one in reversed(started):
        if one.arrival.tier == tier:
            left = one.arrival.arrival_s if left is None else min(left, one.arrival.arrival_s)
        oldest.append(left)
    return oldest[::-1]
