"""How many go first, and how long that takes: estimates from counts, not promises."""

from beacon_config import BeaconConfig
from beacon_contracts.tiers import JobClass
from beacon_runner.ports.queue_admin import QueueStats


def places_ahead(stats: QueueStats, job_class: JobClass, lane: str) -> int:
    """Jobs served before one that joins the lane now: lanes take turns, so each lets at most that many by."""
    loads = [load for load in stats.lanes if load.job_class is job_class]
    own = sum(load.pending for load in loads if load.lane == lane)
    others = sum(min(load.pending, own + 1) for load in loads if load.lane != lane)
    return stats.front.get(job_class, 0) + own + others


def estimated_wait_s(config: BeaconConfig, model: str, ahead: int) -> float:
    """As if all that is ahead asked for the same model: its run time over the slots that can serve it."""
    slots = sum(backend.slots for backend in config.backends.values() if model in backend.models)
    return (
        round(ahead * config.models[model].expected_run_s / max(slots, 1), 2)
        if model in config.models
        else 0.0
    )
