"""The report of a simulated load."""

from beacon_contracts.model import ResponseModel


class SimulatedWaits(ResponseModel):
    """Requests of a tier, a user or a model, and how long they waited for a slot."""

    name: str
    requests: int
    gpu_s: float
    """Seconds of slots used: model loads and runs."""
    mean_wait_s: float
    p50_wait_s: float
    p95_wait_s: float
    max_wait_s: float
    loads: int
    """Model loads that its requests caused."""


class SimulatedBackend(ResponseModel):
    """How much of its time a backend was used."""

    name: str
    region: str
    slots: int
    run_share: float
    """Share of the time of its slots that runs used."""
    load_share: float
    """Share of the time of its slots that model loads used."""
    timeline: list[float]
    """Share of its slots in use, in equal parts of the simulated time."""


class SimulationReport(ResponseModel):
    """The result of a simulation: waits by tier, user and model, and the use of each backend."""

    requests: int
    duration_s: float
    """From the first arrival to the end of the last run."""
    loads: int
    run_share: float
    """Share of the time of all slots that runs used."""
    load_share: float
    """Share of the time of all slots that model loads used."""
    tiers: list[SimulatedWaits]
    users: list[SimulatedWaits]
    """In order of GPU time, the largest first."""
    models: list[SimulatedWaits]
    backends: list[SimulatedBackend]
