"""Models, features, regions, and the prices of a skip."""

from typing import Any

from pydantic import Field

from beacon_contracts.model import ResponseModel
from beacon_contracts.router_status import LimitStatus, RegionStatus
from beacon_contracts.tiers import JobClass


class ModelView(ResponseModel):
    """A model; `input_schema` is the JSON Schema of its input, if it has one."""

    id: str
    regions: list[str]
    expected_load_s: float | None = None
    expected_run_s: float | None = None
    max_duration_s: float | None = None
    limit: int | None = None
    exclusive: bool = False
    input_schema: dict[str, Any] | None = None


class ModelList(ResponseModel):
    """All models that can be requested."""

    models: list[ModelView]


class TierView(ResponseModel):
    """A tier; `priority` is the class of its jobs."""

    name: str
    rank: int
    priority: JobClass


class TierList(ResponseModel):
    """The highest tier first."""

    tiers: list[TierView]


class StepView(ResponseModel):
    """A step of a pipeline and the model that runs it."""

    name: str
    model: str


class FeatureView(ResponseModel):
    """A pipeline; `inputs` are the fields of the job's input that its steps use."""

    name: str
    steps: list[StepView]
    inputs: list[str] = Field(default_factory=list)


class FeatureList(ResponseModel):
    """All pipelines that can be requested."""

    features: list[FeatureView]


class RegionView(ResponseModel):
    """A region; `state` is missing while its router is unavailable."""

    name: str
    aliases: list[str] = Field(default_factory=list)
    models: list[str] = Field(default_factory=list)
    state: RegionStatus | None = None


class RegionList(ResponseModel):
    """All regions, with their aliases and state."""

    regions: list[RegionView]
    groups: dict[str, LimitStatus] = Field(default_factory=dict)
    global_retry: int = 0


class SkipPriceView(ResponseModel):
    """The price for a job of at most `up_to_s` seconds; the last price has no limit."""

    up_to_s: float | None = None
    price: int


class SkipPricing(ResponseModel):
    """The prices of a skip, by the duration of the job."""

    prices: list[SkipPriceView]
