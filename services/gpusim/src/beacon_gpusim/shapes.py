"""The shapes that settings and control requests share, and what they become inside."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from beacon_gpusim.core.faults import Fault, FaultKind
from beacon_gpusim.core.times import Constant, Distribution, Lognormal, ModelTimes, Uniform

Seconds = Annotated[float, Field(ge=0, le=86_400)]


class RequestModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ConstantShape(RequestModel):
    kind: Literal["constant"]
    seconds: Seconds

    def inside(self) -> Distribution:
        return Constant(self.seconds)


class UniformShape(RequestModel):
    kind: Literal["uniform"]
    low: Seconds
    high: Seconds

    @model_validator(mode="after")
    def _in_order(self) -> "UniformShape":
        if self.low > self.high:
            raise ValueError(f"low ({self.low}) is above high ({self.high})")
        return self

    def inside(self) -> Distribution:
        return Uniform(self.low, self.high)


class LognormalShape(RequestModel):
    kind: Literal["lognormal"]
    median: Seconds
    sigma: Annotated[float, Field(ge=0, le=3)]

    def inside(self) -> Distribution:
        return Lognormal(self.median, self.sigma)


DistributionShape = (
    Seconds | Annotated[ConstantShape | UniformShape | LognormalShape, Field(discriminator="kind")]
)


class TimesShape(RequestModel):
    """A number is a constant; what is left out stays as it was."""

    load: DistributionShape | None = None
    run: DistributionShape | None = None

    def over(self, before: ModelTimes) -> ModelTimes:
        return ModelTimes(
            load=before.load if self.load is None else distribution(self.load),
            run=before.run if self.run is None else distribution(self.run),
        )


def distribution(shape: DistributionShape) -> Distribution:
    return Constant(shape) if isinstance(shape, int | float) else shape.inside()


class FaultShape(RequestModel):
    """One rule: spoils the calls of `model` (all when left out), by `probability` or only the `next` few."""

    kind: FaultKind
    model: str | None = None
    probability: Annotated[float, Field(gt=0, le=1)] = 1.0
    next: Annotated[int, Field(ge=1)] | None = None
    status: Annotated[int, Field(ge=400, le=599)] = 500
    retry_after_s: Seconds | None = None
    after_s: Seconds = 0.0
    extra_s: Seconds = 0.0

    def inside(self) -> Fault:
        return Fault(
            kind=self.kind,
            model=self.model,
            probability=self.probability,
            next_n=self.next,
            status=self.status,
            retry_after_s=self.retry_after_s,
            after_s=self.after_s,
            extra_s=self.extra_s,
        )


class ProxyShape(RequestModel):
    cut_s: Annotated[float, Field(gt=0, le=86_400)]


class SlotsShape(RequestModel):
    slots: Annotated[int, Field(ge=0, le=1_000_000)]
    loaded_models: Annotated[int, Field(ge=1, le=1_000)] | None = None


def _not_blank(value: str) -> str:
    if not value.strip():
        raise ValueError("must not be blank")
    return value


RegionName = Annotated[str, Field(max_length=100), AfterValidator(_not_blank)]
