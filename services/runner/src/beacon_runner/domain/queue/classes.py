"""The class that a job is moved to after a paid skip or a long wait."""

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
    """The classes that some tier uses and some pool serves; in others a job would never run."""
    used = {tier.job_class for tier in config.tiers.values()}
    return frozenset(job_class for pool in config.pools.values() for job_class in pool.served) & used


def front_class(config: BeaconConfig) -> JobClass:
    """The class that skipped jobs move to: the one that most pools serve, the better one of equals."""
    usable = [job_class for job_class in _BEST_FIRST if job_class in usable_classes(config)]
    pools = config.pools.values()
    return max(usable, key=lambda job_class: sum(job_class in pool.served for pool in pools))


def better(one: JobClass, other: JobClass) -> JobClass:
    return min(one, other, key=_BEST_FIRST.index)


def promotions(config: BeaconConfig) -> tuple[Promotion, ...]:
    """The promotions by waiting time, best class first, so that a job rises once in each run."""
    waits, usable = config.promotion, usable_classes(config)
    steps = [
        Promotion(JobClass.MEDIUM, JobClass.HIGH, waits.medium_to_high_after_s),
        Promotion(JobClass.LOW, JobClass.MEDIUM, waits.low_to_medium_after_s),
    ]
    if JobClass.MEDIUM not in usable:
        steps = [Promotion(JobClass.LOW, JobClass.HIGH, waits.medium_to_high_after_s)]
    return tuple(step for step in steps if step.target in usable)
