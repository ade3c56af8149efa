"""From the configuration file to what the scheduler schedules on."""

from collections.abc import Iterator
from math import inf

from beacon_config import BeaconConfig
from beacon_config.topology import BackendConfig
from beacon_contracts.tiers import Tier
from beacon_router.core import (
    BackendSpec,
    GroupSpec,
    ModelSpec,
    Policy,
    RegionSpec,
    TierRule,
    Topology,
)
from beacon_router.dispatch.limits import ModelBudget, RunLimits

SLOTS_MARK = "#slots"  # no configured name can have it


def topology_of(config: BeaconConfig, *, replicas: bool = False) -> Topology:
    """With replicas, a backend that is in no group gets one of its own: its slots are shared like a cap."""
    own = {
        name: GroupSpec(f"{name}{SLOTS_MARK}", backend.slots) for name, backend in _alone(config, replicas)
    }
    return Topology(
        regions=tuple(RegionSpec(name, region.concurrency) for name, region in config.regions.items()),
        backends=tuple(
            BackendSpec(
                name=name,
                region=backend.region,
                models=frozenset(backend.models),
                slots=backend.slots,
                loaded_models=backend.loaded_models,
                group=own[name].name if name in own else backend.group,
            )
            for name, backend in config.backends.items()
        ),
        models=tuple(
            ModelSpec(
                name=name,
                expected_load_s=model.expected_load_s,
                expected_run_s=model.expected_run_s,
                exclusive=model.exclusive,
                limit=model.limit,
            )
            for name, model in config.models.items()
        ),
        groups=(*(GroupSpec(name, group.cap) for name, group in config.groups.items()), *own.values()),
    )


def _alone(config: BeaconConfig, replicas: bool) -> Iterator[tuple[str, BackendConfig]]:
    if replicas:
        yield from ((name, backend) for name, backend in config.backends.items() if backend.group is None)


def policy_of(config: BeaconConfig) -> Policy:
    rules = (config.tiers[tier] for tier in Tier)
    return Policy(
        batch_limit=config.router.batch_limit,
        tiers=tuple(TierRule(rule.starvation_bound_s, rule.starvation_weight) for rule in rules),
    )


def run_limits_of(config: BeaconConfig) -> RunLimits:
    router = config.router
    return RunLimits(
        {
            name: ModelBudget(
                load_s=model.load_timeout_s or router.load_timeout_s,
                run_s=model.run_timeout_s or router.run_timeout_s,
                most_s=model.run_timeout_s or inf,
            )
            for name, model in config.models.items()
        }
    )
