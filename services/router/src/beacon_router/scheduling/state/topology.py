"""Regions, backends, models and the settings of the policy. Never changed: a scheduler adopts another one."""

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import NewType

LimitName = NewType("LimitName", str)


def group_limit(group: str) -> LimitName:
    """The name under which a group's cap is counted."""
    return LimitName(f"group:{group}")


def model_limit(model: str) -> LimitName:
    """The name under which a model's own limit is counted."""
    return LimitName(f"model:{model}")


def slots_limit(backend: str) -> LimitName:
    """The name under which the slots of a backend are counted that replicas share."""
    return LimitName(f"slots:{backend}")


def region_limit(region: str) -> LimitName:
    """The name under which the concurrency of a region is counted."""
    return LimitName(f"region:{region}")


def exclusive_limit(region: str, model: str) -> LimitName:
    """The name under which the one run of an exclusive model in a region is counted."""
    return LimitName(f"exclusive:{region}:{model}")


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """The expected seconds are where estimates begin; what is measured soon replaces them."""

    name: str
    expected_load_s: float = 5.0
    expected_run_s: float = 5.0
    exclusive: bool = False
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class BackendSpec:
    """`shared`: other routers use its slots too, so that a run needs a token for one. `drain`: it starts
    nothing, but runs that are in progress there are continued. `leaving`: it was removed from the
    configuration, and has a run that was not ended yet. `durable_runs`: those in progress there survive its
    restart, so that they wait for it; others are continued at once, to find out whether they are lost."""

    name: str
    region: str
    models: frozenset[str]
    slots: int = 1
    loaded_models: int = 1
    group: str | None = None
    shared: bool = False
    capabilities: frozenset[str] = frozenset()
    drain: bool = False
    leaving: bool = False
    durable_runs: bool = True


@dataclass(frozen=True, slots=True)
class RegionSpec:
    """`concurrency` left out is the sum of the region's slots; 1 is a strictly sequential region."""

    name: str
    concurrency: int | None = None


@dataclass(frozen=True, slots=True)
class GroupSpec:
    name: str
    cap: int


@dataclass(frozen=True)
class Topology:
    regions: tuple[RegionSpec, ...]
    backends: tuple[BackendSpec, ...]
    models: tuple[ModelSpec, ...]
    groups: tuple[GroupSpec, ...] = ()

    def __post_init__(self) -> None:
        errors = [*self._unknown_names(), *self._repeated_names()]
        if errors:
            raise ValueError("; ".join(errors))

    @cached_property
    def limits(self) -> dict[LimitName, int]:
        """Every cap that routers share: groups, slots, regions, models and exclusive models."""
        caps = {group_limit(group.name): group.cap for group in self.groups}
        caps |= {slots_limit(backend.name): backend.slots for backend in self.backends if backend.shared}
        for region in self.regions:
            if region.concurrency is not None:
                caps[region_limit(region.name)] = region.concurrency
        caps |= {model_limit(model.name): model.limit for model in self.models if model.limit is not None}
        exclusive = {model.name for model in self.models if model.exclusive}
        for backend in self.backends:
            for name in sorted(backend.models & exclusive):
                caps[exclusive_limit(backend.region, name)] = 1
        return caps

    def limits_of(self, backend: BackendSpec, model: str | None = None) -> tuple[LimitName, ...]:
        """What any run on the backend needs a token of; with a model, what runs of that model need too."""
        names = [region_limit(backend.region), slots_limit(backend.name)]
        if backend.group is not None:
            names.insert(0, group_limit(backend.group))
        if model is not None:
            names += [exclusive_limit(backend.region, model), model_limit(model)]
        return tuple(name for name in names if name in self.limits)

    def _unknown_names(self) -> list[str]:
        regions = {region.name for region in self.regions}
        models = {model.name for model in self.models}
        groups = {group.name for group in self.groups}
        errors: list[str] = []
        for backend in self.backends:
            if backend.region not in regions:
                errors.append(f"backend {backend.name} is in the unknown region {backend.region!r}")
            if backend.group is not None and backend.group not in groups:
                errors.append(f"backend {backend.name} is in the unknown group {backend.group!r}")
            errors += [
                f"backend {backend.name} serves the unknown model {model!r}"
                for model in sorted(backend.models - models)
            ]
        return errors

    def _repeated_names(self) -> list[str]:
        names = {
            "region": [region.name for region in self.regions],
            "backend": [backend.name for backend in self.backends],
            "model": [model.name for model in self.models],
            "group": [group.name for group in self.groups],
        }
        return [
            f"two {kind}s have the same name" for kind, given in names.items() if len(set(given)) < len(given)
        ]


@dataclass(frozen=True, slots=True)
class TierRule:
    """How long a request of the tier waits until the tier starves, and the weight of its turns then."""

    starvation_bound_s: float
    weight: int


DEFAULT_TIERS = (
    TierRule(30.0, 16),
    TierRule(45.0, 8),
    TierRule(60.0, 4),
    TierRule(90.0, 2),
    TierRule(120.0, 1),
)


class Fairness(StrEnum):
    """The order of the users of a tier."""

    FAIR = "fair"
    """The user who has had the least GPU time, by weight, first."""
    FIFO = "fifo"
    """Arrival, regardless of the user."""


@dataclass(frozen=True, slots=True)
class Policy:
    """`tiers` is indexed by rank. docs/scheduling.md explains every rule and what follows from its number.

    `batch_limit`: starts of a backend set before others because their model is loaded, between two in order.
    `bypass_limit`: starts in a row from the retry queues and the paid front while a tier starves.
    `warm_wait_max_loads`: a request waits for a warm backend for at most so many loads.
    `retry_elsewhere_s`: for so long a retry does not go back to a region where it failed.
    """

    batch_limit: int = 3
    tiers: tuple[TierRule, ...] = DEFAULT_TIERS
    bypass_limit: int = 3
    warm_wait_max_loads: float = 5.0
    fairness: Fairness = Fairness.FAIR
    retry_elsewhere_s: float = 2.0

    def __post_init__(self) -> None:
        if min(self.batch_limit, self.bypass_limit, self.warm_wait_max_loads, self.retry_elsewhere_s) < 0:
            raise ValueError(
                "batch_limit, bypass_limit, warm_wait_max_loads and retry_elsewhere_s must not be negative"
            )
        if not self.tiers:
            raise ValueError("at least one tier is needed")
        if any(tier.weight < 1 or tier.starvation_bound_s < 0 for tier in self.tiers):
            raise ValueError("a tier's weight is at least 1 and its bound is not negative")
