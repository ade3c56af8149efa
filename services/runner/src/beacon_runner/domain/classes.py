"""Which class a job is moved to: by payment, or by having waited long."""

from collections.abc import Mapping

from beacon_config.tenancy import PoolConfig
from beacon_contracts.tiers import JobClass

_BEST_FIRST = tuple(JobClass)


def front_class(pools: Mapping[str, PoolConfig]) -> JobClass:
    """Where whoever paid is served soonest: the class that most pools serve, the better one of equals."""
    return max(
        reversed(_BEST_FIRST),
        key=lambda job_class: sum(job_class in _served(pool) for pool in pools.values()),
    )


def better(one: JobClass, other: JobClass) -> JobClass:
    return min(one, other, key=_BEST_FIRST.index)


def served_classes(pools: Mapping[str, PoolConfig]) -> frozenset[JobClass]:
    return frozenset(job_class for pool in pools.values() for job_class in _served(pool))


def _served(pool: PoolConfig) -> list[JobClass]:
    return pool.classes[:1] if pool.strict else pool.classes
