"""From the configuration to the scheduler's topology and policy, and the run timeouts."""

from math import inf

from beacon_config import BeaconConfig
from beacon_config.topology import BackendConfig, Dialect
from beacon_router.scheduling import (
    BackendSpec,
    Fairness,
    GroupSpec,
    ModelSpec,
    Policy,
    RegionSpec,
    TierRule,
    Topology,
)
from beacon_router.service.run_rules import BackoffPolicy, ModelBudget, RunRules, RunTimeouts


def topology_of(config: BeaconConfig, *, replicas: bool = False) -> Topology:
    """With replicas, the slots of a backend are shared like a cap, unless its group's cap is tighter."""
    return Topology(
        regions=tuple(RegionSpec(name, region.concurrency) for name, region in config.regions.items()),
        backends=tuple(
            BackendSpec(
                name=name,
                region=backend.region,
                models=frozenset(backend.models),
                slots=backend.slots,
                loaded_models=backend.loaded_models,
                group=backend.group,
                capabilities=backend.able,
                drain=backend.drain,
                durable_runs=backend.dialect is not Dialect.COMFYUI,  # it has them in memory
                shared=replicas and backend.slots < _cap_of(config, backend),
            )
            for name, backend in config.backends.items()
        ),
        models=tuple(
            ModelSpec(
                name=name,
                expected_load_s=model.expected_load_s,
                expected_run_s=model.expected_run_s,
                exclusive=model.exclusive,
                limit=0 if model.paused else model.limit,
            )
            for name, model in config.models.items()
        ),
        groups=tuple(GroupSpec(name, group.cap) for name, group in config.groups.items()),
    )


def _cap_of(config: BeaconConfig, backend: BackendConfig) -> float:
    return inf if backend.group is None else config.groups[backend.group].cap


def policy_of(config: BeaconConfig) -> Policy:
    return Policy(
        batch_limit=config.router.batch_limit,
        tiers=tuple(
            TierRule(rule.starvation_bound_s, rule.starvation_weight) for rule in config.tiers.values()
        ),
        warm_wait_max_loads=config.router.warm_wait_max_loads,
        fairness=Fairness(config.router.fairness),
    )


def scaled_to_zero(config: BeaconConfig) -> frozenset[str]:
    return frozenset(name for name, backend in config.backends.items() if backend.scale_to_zero)


def run_rules_of(config: BeaconConfig) -> RunRules:
    router = config.router
    backoff = BackoffPolicy(router.attempts, router.backoff_max_s)
    return RunRules(backoff, run_timeouts_of(config), router.reader_timeout_s)


def run_timeouts_of(config: BeaconConfig) -> RunTimeouts:
    router = config.router
    return RunTimeouts(
        {
            name: ModelBudget(
                load_s=model.load_timeout_s or router.load_timeout_s,
                run_s=model.run_timeout_s or router.run_timeout_s,
                max_run_s=model.run_timeout_s or inf,
            )
            for name, model in config.models.items()
        },
        ModelBudget(router.load_timeout_s, router.run_timeout_s),
    )
