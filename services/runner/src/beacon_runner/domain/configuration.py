"""Revisions of the configuration, and the work that a change would leave without a backend."""

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from beacon_config import BeaconConfig
from beacon_contracts.capabilities import Capability
from beacon_contracts.configuration import StrandedWork
from beacon_contracts.failures import Failure, FailureStage
from beacon_contracts.inference import Failover
from beacon_runner.domain.accounts.audit import Actor
from beacon_runner.domain.execution.plan import ExecutionKey, execution_keys
from beacon_runner.domain.inputs.chat import execution_needs

Unserved = Callable[[Mapping[str, Any], int, AbstractSet[int]], Iterable[tuple[str, str]]]
"""Model and region of each unfinished execution of a job, by its specification, stage and ended ordinals."""


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """A revision without its document."""

    revision: int
    created_at: datetime
    actor: Actor
    actor_name: str
    comment: str


@dataclass(frozen=True, slots=True)
class ConfigRevision:
    entry: ConfigEntry
    document: Mapping[str, Any]


class ConfigConflictError(Exception):
    """The newest revision is not the one that was given."""

    def __init__(self, revision: int) -> None:
        super().__init__(f"the newest revision is {revision}; read it and repeat the change")
        self.revision = revision


class UnknownRevisionError(Exception):
    """There is no such revision."""


class UnknownBackendError(Exception):
    """The configuration has no such backend."""


class UnknownModelError(Exception):
    """The configuration has no such model."""


class BackendExistsError(Exception):
    """The configuration has a backend of this name."""


class StrandedWorkError(Exception):
    """No backend could run what is unfinished, or no pool would serve its class."""

    def __init__(self, stranded: list[StrandedWork]) -> None:
        parts = [
            f"no backend would run {one.executions} unfinished executions of {one.model} in {one.region}"
            if one.job_class is None
            else f"no pool would serve {one.jobs} unfinished jobs of class {one.job_class}"
            for one in stranded
        ]
        super().__init__(f"{'; '.join(parts)}; wait for their end, or force the change")
        self.stranded = stranded


def is_served(
    config: BeaconConfig,
    model: str,
    region: str,
    failover: Failover,
    needs: AbstractSet[Capability] = frozenset(),
) -> bool:
    """A backend of the configuration can run it, now or when it is resumed."""
    if model not in config.models or region not in config.regions:
        return False
    pinned = failover is Failover.PINNED
    return any(
        model in backend.models
        and (not pinned or backend.region == region)
        and (not needs or needs <= backend.able)
        for backend in config.backends.values()
    )


def less_served_models(before: BeaconConfig, after: BeaconConfig) -> frozenset[str]:
    """The models of which work may be left without a backend: in fewer regions, or less capable there."""
    return frozenset(model for model, _, _ in _places(before) - _places(after))


def classes_without_pool(before: BeaconConfig, after: BeaconConfig) -> frozenset[str]:
    """Classes that a pool served before."""
    return frozenset(_served_classes(before) - _served_classes(after))


def unserved_by(config: BeaconConfig) -> Unserved:
    def unserved(spec: Mapping[str, Any], stage: int, ended: AbstractSet[int]) -> Iterable[tuple[str, str]]:
        failover = Failover(spec.get("failover") or Failover.ANY)
        for key in execution_keys(spec):
            remains = key.stage > stage or (key.stage == stage and key.ordinal not in ended)
            if remains and not is_served(config, key.model, key.region, failover, _needs(config, spec, key)):
                yield key.model, key.region

    return unserved


def model_removed(model: str, region: str, item: str) -> Failure:
    return Failure(
        code="model_removed",
        stage=FailureStage.QUEUE,
        retryable=False,
        message=f"no backend serves {model} in {region} any more",
        item=item,
    )


def _needs(config: BeaconConfig, spec: Mapping[str, Any], key: ExecutionKey) -> AbstractSet[Capability]:
    """What the execution needs of a backend, by the names of its parameters."""
    given: Mapping[str, Any] = {}
    if "steps" in spec:
        given = spec["steps"][key.stage].get("input") or spec["input"]
    elif "model" in spec:
        given = spec["input"]
    return execution_needs(key.model, given, spec.get("params", {}), config.chat_models).keys()


def _places(config: BeaconConfig) -> set[tuple[str, str, Capability | None]]:
    return {
        (model, backend.region, capability)
        for backend in config.backends.values()
        for model in backend.models
        for capability in (None, *backend.able)
    }


def _served_classes(config: BeaconConfig) -> set[str]:
    return {job_class.value for pool in config.pools.values() for job_class in pool.served}
