"""The work that waits for GPUs, as autoscalers read it."""

from pydantic import Field

from beacon_contracts.model import ResponseModel


class DemandTotals(ResponseModel):
    """Executions and requests that wait or run, and the GPU seconds that they are expected to take."""

    waiting: int = Field(description="At the routers and in the runner's queues")
    running: int
    gpu_seconds: float = Field(
        description="Of what waits, unless its model is paused, and what is left of the runs; without loads"
    )
    slots: int = Field(description="Of backends that take work now")
    slots_needed: int = Field(description="That would do the work within the target")


class ModelDemand(DemandTotals):
    """Of one model in one region."""

    model: str
    region: str
    run_s: float = Field(description="Seconds of a run, as measured; until then as configured")
    load_s: float
    wait_p50_s: float | None = Field(
        default=None, description="Of a new request of the lowest tier; null if nothing can run it now"
    )
    wait_p90_s: float | None = None


class GpuDemand(ResponseModel):
    """Work is counted once: where it was asked for, after a failure where it failed, and where it runs.

    Later stages of pipelines, and jobs that start at a later time or wait for a limit of their user, are
    not counted.
    """

    target_wait_s: float
    total: DemandTotals
    models: list[ModelDemand]
    unavailable_routers: list[str] = Field(
        default_factory=list, description="What waits or runs at these is missing"
    )
