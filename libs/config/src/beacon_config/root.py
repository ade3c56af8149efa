"""The whole file, and checks across its sections."""

import json
from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from beacon_config.api import ApiConfig
from beacon_config.features import INPUT, FeatureConfig, template_errors
from beacon_config.files import FilesConfig
from beacon_config.limits import LimitsConfig
from beacon_config.queues import DEFAULT_POOLS, LanesConfig, PoolConfig, PromotionConfig
from beacon_config.retention import RetentionConfig
from beacon_config.router import RouterConfig
from beacon_config.runner import RunnerConfig
from beacon_config.section import Section
from beacon_config.skip_prices import DEFAULT_SKIP_PRICES, SkipPrice
from beacon_config.tiers import DEFAULT_TIERS, TierConfig
from beacon_config.topology import (
    DEFAULT_REGION,
    BackendConfig,
    Dialect,
    GroupConfig,
    ModelConfig,
    ModelKind,
    RegionConfig,
    backend_url_variable,
)
from beacon_contracts.model import Name


class BeaconConfig(Section):
    """The whole configuration: each section of beacon.toml, checked against the others."""

    regions: Annotated[dict[Name, RegionConfig], Field(min_length=1)]
    groups: dict[Name, GroupConfig] = Field(default_factory=dict)
    backends: Annotated[dict[Name, BackendConfig], Field(min_length=1)]
    models: Annotated[dict[Name, ModelConfig], Field(min_length=1)]
    features: dict[Name, FeatureConfig] = Field(default_factory=dict)
    tiers: Annotated[dict[Name, TierConfig], Field(min_length=1)] = Field(default_factory=DEFAULT_TIERS.copy)
    lanes: LanesConfig = LanesConfig()
    pools: Annotated[dict[Name, PoolConfig], Field(min_length=1)] = Field(default_factory=DEFAULT_POOLS.copy)
    promotion: PromotionConfig = PromotionConfig()
    skip_prices: Annotated[list[SkipPrice], Field(min_length=1)] = Field(
        default_factory=DEFAULT_SKIP_PRICES.copy
    )
    limits: LimitsConfig = LimitsConfig()
    api: ApiConfig = ApiConfig()
    runner: RunnerConfig = RunnerConfig()
    retention: RetentionConfig = RetentionConfig()
    files: FilesConfig = FilesConfig()
    router: RouterConfig = RouterConfig()

    @cached_property
    def region_names(self) -> dict[str, str]:
        """Maps names and aliases of regions, in lower case, to names."""
        names = {name.casefold(): name for name in self.regions}
        names |= {alias.casefold(): name for name, region in self.regions.items() for alias in region.aliases}
        return names

    @cached_property
    def ranks(self) -> dict[str, int]:
        """The rank of each tier: its place in the file. Lower ranks have priority."""
        return {tier: rank for rank, tier in enumerate(self.tiers)}

    @property
    def lowest_tier(self) -> str:
        return next(reversed(self.tiers))

    def known_tier(self, tier: str | None) -> str:
        """The tier itself, or the lowest one for users of a tier that was removed from the file."""
        return tier if tier is not None and tier in self.tiers else self.lowest_tier

    def rank_of(self, tier: str | None) -> int:
        """The rank of the tier, or the lowest one: as `known_tier`."""
        return len(self.tiers) - 1 if tier is None else self.ranks.get(tier, len(self.tiers) - 1)

    @model_validator(mode="before")
    @classmethod
    def _derive_regions_and_models(cls, data: Any) -> Any:
        """Without [regions] or [models], adds the ones that the backends name, with default settings."""
        backends = data.get("backends") if isinstance(data, dict) else None
        if not isinstance(backends, dict) or not all(isinstance(one, dict) for one in backends.values()):
            return data
        regions = _list_of([one.get("region", DEFAULT_REGION) for one in backends.values()])
        models = [model for one in backends.values() for model in _list_of(one.get("models"))]
        names = {"regions": regions, "models": models}
        derived: dict[str, Any] = {key: {name: {} for name in found} for key, found in names.items() if found}
        return derived | data

    @cached_property
    def chat_models(self) -> list[str]:
        """The models of the OpenAI-compatible API."""
        backends = self.backends.values()
        openai = (each for each in backends if each.dialect is Dialect.OPENAI)
        served = {name for backend in openai for name in backend.models}
        default = {name: ModelKind.CHAT if name in served else ModelKind.OTHER for name in self.models}
        return [
            name for name, model in self.models.items() if (model.kind or default[name]) is ModelKind.CHAT
        ]

    @model_validator(mode="after")
    def _check_sections(self) -> Self:
        errors = [
            *self._backend_errors(),
            *self._region_errors(),
            *self._feature_errors(),
            *self._tier_errors(),
            *self._price_errors(),
            *self._runner_errors(),
        ]
        if errors:
            raise ValueError("\n".join(errors))
        return self

    def _backend_errors(self) -> Iterator[str]:
        variables: dict[str, str] = {}
        for name in self.backends:
            other = variables.setdefault(backend_url_variable(name), name)
            if other != name:
                yield f"backends {other} and {name} are both set by {backend_url_variable(name)}"
        for name, backend in self.backends.items():
            if backend.region not in self.regions:
                yield f"backend {name} is in region {backend.region!r}, " + _missing(
                    "regions", backend.region
                )
            if backend.group is not None and backend.group not in self.groups:
                yield f"backend {name} belongs to group {backend.group!r}, which is not in [groups]"
            for model in backend.models:
                if model not in self.models:
                    yield f"backend {name} serves model {model!r}, {_missing('models', model)}"
                elif backend.dialect is Dialect.COMFYUI and self.models[model].workflow is None:
                    yield f"backend {name} has dialect comfyui, but models.{model} has no workflow"
        served = {model for backend in self.backends.values() for model in backend.models}
        for model in sorted(self.models.keys() - served):
            yield f"model {model!r} is in [models], but no backend serves it"

    def _region_errors(self) -> Iterator[str]:
        owners: dict[str, str] = {}
        for name, region in self.regions.items():
            for spelling in {name.casefold(), *(alias.casefold() for alias in region.aliases)}:
                if owners.setdefault(spelling, name) != name:
                    yield f"regions {owners[spelling]} and {name} have the same name {spelling!r}"
        used = {backend.region for backend in self.backends.values()}
        for name in sorted(self.regions.keys() - used):
            yield f"region {name} has no backend"

    def _feature_errors(self) -> Iterator[str]:
        for name, feature in self.features.items():
            known = {INPUT}
            for step in feature.steps:
                if step.model not in self.models:
                    yield f"feature {name}: step {step.name} needs {step.model!r}, which is not in [models]"
                if step.name in known:
                    yield f"feature {name}: two steps are named {step.name!r}"
                yield from (f"feature {name}: {error}" for error in template_errors(step, known))
                known.add(step.name)

    def _tier_errors(self) -> Iterator[str]:
        for name, config in self.tiers.items():
            for model in config.models:
                if model not in self.models:
                    yield f"tiers.{name}.models has {model!r}, which is not in [models]"
        yield from self._bound_errors()
        served = {job_class for pool in self.pools.values() for job_class in pool.served}
        used = {tier.job_class for tier in self.tiers.values()}
        for job_class in sorted(used - served):
            yield f"no pool serves class {job_class}: its jobs would wait forever"

    def _bound_errors(self) -> Iterator[str]:
        """With a shorter bound than a higher tier, a lower tier would overtake it."""
        for higher, lower in pairwise(self.tiers):
            bound_s, least_s = self.tiers[lower].starvation_bound_s, self.tiers[higher].starvation_bound_s
            if bound_s < least_s:
                yield (
                    f"tiers.{lower}.starvation_bound_s {bound_s:g} must be at least that of "
                    f"the higher tier {higher}, {least_s:g}"
                )

    def _price_errors(self) -> Iterator[str]:
        *bounded, last = self.skip_prices
        if last.up_to_s is not None:
            yield "the last of [[skip_prices]] must have no up_to_s: it is the price of all longer jobs"
        bounds = [price.up_to_s or 0.0 for price in bounded]
        if any(later <= earlier for earlier, later in zip([0.0, *bounds], bounds, strict=False)):
            yield "[[skip_prices]] must be sorted by up_to_s, each longer than the one before"

    def _runner_errors(self) -> Iterator[str]:
        largest = max(self.limits.body_bytes, self.limits.openai_body_bytes)
        if self.router.body_bytes < largest:
            yield (
                f"router.body_bytes {self.router.body_bytes} must be at least {largest}, the larger of "
                "limits.body_bytes and limits.openai_body_bytes: the router receives what the runner accepts"
            )
        if self.limits.openai_held_bytes < 2 * self.limits.openai_body_bytes:
            yield (
                f"limits.openai_held_bytes {self.limits.openai_held_bytes} must be at least twice limits."
                f"openai_body_bytes {self.limits.openai_body_bytes}: a user may hold at most half of it"
            )
        if self.runner.heartbeat_s * 2 > self.runner.lease_s:
            yield (
                f"runner.heartbeat_s {self.runner.heartbeat_s} must be at most half of runner.lease_s "
                f"{self.runner.lease_s}: one lost heartbeat must not end a lease"
            )
        if self.runner.in_flight_bytes < self.limits.body_bytes:
            yield (
                f"runner.in_flight_bytes {self.runner.in_flight_bytes} must be at least limits.body_bytes "
                f"{self.limits.body_bytes}: a worker would not have room for one job"
            )


def _list_of(value: Any) -> list[Any]:
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


def _missing(section: str, name: str) -> str:
    return f"which is not in [{section}]; add [{section}.{json.dumps(name, ensure_ascii=False)}]"
