"""Which class a job is moved to: by payment, or by having waited long."""

from dataclasses import dataclass

from beacon_config import BeaconConfig
from beacon_contracts.tiers import JobClass

_BEST_FIRST = tuple(JobClass)


@dataclass(frozen=True, slots=True)
class Promotion:
    source: JobClass
    target: JobClass
    waited_s: float


def usable_classes(config: BeaconConfig) -> frozenset[JobClass]:
    """Those that some tier uses and some pool serves: in others a job would wait unseen, or forever."""
    used = {tier.job_class for tier in config.tiers.values()}
    return frozenset(job_class for pool in config.pools.values() for job_class in pool.served) & used


def front_class(config: BeaconConfig) -> JobClass:
    """Where whoever paid is served soonest: the class that most pools serve, the better one of equals."""
    usable = [job_class for job_class in _BEST_FIRST if job_class in usable_classes(config)]
    pools = config.pools.values()
    return max(usable, key=lambda job_class: sum(job_class in pool.served for pool in pools))


def better(one: JobClass, other: JobClass) -> JobClass:
    return min(one, other, key=_BEST_FIRST.index)


def promotions(config: BeaconConfig) -> tuple[Promotion, ...]:
    """Who rises to where after how long: best first, so that nobody rises twice at once."""
    waits, usable = config.promotion, usable_classes(config)
    steps = [
        Promotion(JobClass.MEDIUM, JobClass.HIGH, waits.medium_to_high_after_s),
        Promotion(JobClass.LOW, JobClass.MEDIUM, waits.low_to_medium_after_s),
    ]
    if JobClass.MEDIUM not in usable:
        steps = [Promotion(JobClass.LOW, JobClass.HIGH, waits.medium_to_high_after_s)]
    return tuple(step for step in steps if step.target in usable)
