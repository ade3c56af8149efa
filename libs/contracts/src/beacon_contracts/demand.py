"""The work that waits for GPUs, as autoscalers read it."""

from pydantic import Field

from beacon_contracts.model import ResponseModel


class DemandTotals(ResponseModel):
    """Executions and requests that wait or run, and the GPU seconds that they are expected to take."""

    waiting: int = Field(description="At the routers and in the runner's queues")
    running: int
    gpu_seconds: float = Field(
        description="Expected GPU seconds of waiting work, except of paused models, and of the rest of the "
        "runs; without loads"
    )
    slots: int = Field(description="Slots of the backends that take work now")
    slots_needed: int = Field(description="Slots that would do the work within the target")


class ModelDemand(DemandTotals):
    """The demand for one model in one region."""

    model: str
    region: str
    run_s: float = Field(
        description="Measured seconds of a run; configured seconds until there is a measurement"
    )
    load_s: float
    wait_p50_s: float | None = Field(
        default=None,
        description="Estimated wait of a new request of the lowest tier; null if no backend can run it now",
    )
    wait_p90_s: float | None = None


class GpuDemand(ResponseModel):
    """The demand by model and region. Waiting work counts in the region that it requests, after a failure in
    the region where it failed, and running work where it runs.

    Later stages of pipelines, and jobs that start at a later time or wait for a limit of their user, are
    not counted.
    """

    target_wait_s: float
    total: DemandTotals
    models: list[ModelDemand]
    unavailable_routers: list[str] = Field(
        default_factory=list, description="Routers that did not answer: their work is missing"
    )
