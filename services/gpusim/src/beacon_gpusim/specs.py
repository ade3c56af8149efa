"""Models that settings and control requests share, and their conversion to domain objects."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from beacon_gpusim.core.durations import Constant, Distribution, Lognormal, ModelDurations, Uniform
from beacon_gpusim.core.faults import Fault, FaultKind
from beacon_gpusim.core.media import Delivery, MediaKind, MediaSpec

Seconds = Annotated[float, Field(ge=0, le=86_400)]


class SpecModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ConstantSpec(SpecModel):
    kind: Literal["constant"]
    seconds: Seconds

    def to_domain(self) -> Distribution:
        return Constant(self.seconds)


class UniformSpec(SpecModel):
    kind: Literal["uniform"]
    low: Seconds
    high: Seconds

    @model_validator(mode="after")
    def _in_order(self) -> "UniformSpec":
        if self.low > self.high:
            raise ValueError(f"low ({self.low}) is above high ({self.high})")
        return self

    def to_domain(self) -> Distribution:
        return Uniform(self.low, self.high)


class LognormalSpec(SpecModel):
    kind: Literal["lognormal"]
    median: Seconds
    sigma: Annotated[float, Field(ge=0, le=3)]

    def to_domain(self) -> Distribution:
        return Lognormal(self.median, self.sigma)


DistributionSpec = (
    Seconds | Annotated[ConstantSpec | UniformSpec | LognormalSpec, Field(discriminator="kind")]
)


class DurationsSpec(SpecModel):
    """A number is a constant; an omitted field keeps its value."""

    load: DistributionSpec | None = None
    run: DistributionSpec | None = None

    def over(self, before: ModelDurations) -> ModelDurations:
        return ModelDurations(
            load=before.load if self.load is None else distribution(self.load),
            run=before.run if self.run is None else distribution(self.run),
        )


class MediaSettings(SpecModel):
    """A model that returns files: their kind, how they are delivered, and their least size."""

    kind: MediaKind
    delivery: Delivery = Delivery.BINARY
    min_bytes: Annotated[int, Field(ge=0, le=1_000_000_000)] = 0

    def to_domain(self) -> MediaSpec:
        return MediaSpec(self.kind, self.delivery, self.min_bytes)


class SimulatedModelSpec(DurationsSpec):
    """Durations and media of one model; what is omitted keeps its value."""

    media: MediaSettings | None = None


def distribution(spec: DistributionSpec) -> Distribution:
    return Constant(spec) if isinstance(spec, int | float) else spec.to_domain()


class FaultSpec(SpecModel):
    """One rule: applies to calls of `model` (default: all), by `probability` or to the `next` few."""

    kind: FaultKind
    model: str | None = None
    probability: Annotated[float, Field(gt=0, le=1)] = 1.0
    next: Annotated[int, Field(ge=1)] | None = None
    status: Annotated[int, Field(ge=400, le=599)] = 500
    retry_after_s: Seconds | None = None
    after_s: Seconds = 0.0
    extra_s: Seconds = 0.0
    size: Annotated[int, Field(ge=0, le=4_000_000_000)] = 40_000_000

    def to_domain(self) -> Fault:
        return Fault(
            kind=self.kind,
            model=self.model,
            probability=self.probability,
            next_n=self.next,
            status=self.status,
            retry_after_s=self.retry_after_s,
            after_s=self.after_s,
            extra_s=self.extra_s,
            size=self.size,
        )


class ProxySpec(SpecModel):
    cut_s: Annotated[float, Field(gt=0, le=86_400)]


class SlotsSpec(SpecModel):
    slots: Annotated[int, Field(ge=0, le=1_000_000)]
    loaded_models: Annotated[int, Field(ge=1, le=1_000)] | None = None


def _not_blank(value: str) -> str:
    if not value.strip():
        raise ValueError("must not be blank")
    return value


RegionName = Annotated[str, Field(max_length=100), AfterValidator(_not_blank)]
