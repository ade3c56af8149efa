"""Which class a job is moved to: by payment, or by having waited long."""

from collections.abc import Mapping
from dataclasses import dataclass

from beacon_config.tenancy import PoolConfig, PromotionConfig
from beacon_contracts.tiers import JobClass

_BEST_FIRST = tuple(JobClass)


def front_class(pools: Mapping[str, PoolConfig]) -> JobClass:
    """Where whoever paid is served soonest: the class that most pools serve, the better one of equals."""
    return max(
        _BEST_FIRST,
        key=lambda job_class: sum(job_class in _served(pool) for pool in pools.values()),
    )


def better(one: JobClass, other: JobClass) -> JobClass:
    return min(one, other, key=_BEST_FIRST.index)


@dataclass(frozen=True, slots=True)
class Promotion:
    source: JobClass
    target: JobClass
    waited_s: float


def promotions(config: PromotionConfig, pools: Mapping[str, PoolConfig]) -> tuple[Promotion, ...]:
    """Who rises to where after how long: best first, so that nobody rises twice at once.

    A class that no pool serves is passed over: its jobs would wait forever.
    """
    served = served_classes(pools)
    steps = [
        Promotion(JobClass.MEDIUM, JobClass.HIGH, config.medium_to_high_after_s),
        Promotion(JobClass.LOW, JobClass.MEDIUM, config.low_to_medium_after_s),
    ]
    if JobClass.MEDIUM not in served:
        steps = [Promotion(JobClass.LOW, JobClass.HIGH, config.medium_to_high_after_s)]
    return tuple(step for step in steps if step.target in served)


def served_classes(pools: Mapping[str, PoolConfig]) -> frozenset[JobClass]:
    return frozenset(job_class for pool in pools.values() for job_class in _served(pool))


def _served(pool: PoolConfig) -> list[JobClass]:
    return pool.classes[:1] if pool.strict else pool.classes
