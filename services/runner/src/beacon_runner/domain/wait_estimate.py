"""Estimates from counts: how many jobs are served before one, and how long that takes."""

from collections.abc import Mapping

from beacon_config import BeaconConfig


def jobs_ahead(front: int, pending: Mapping[str, int], lane: str) -> int:
    """Jobs served before one that joins the lane now.

    `front` and `pending` (by lane) are the counts of its class. Lanes are served round-robin, so each other
    lane contributes at most as many jobs as are served of the own lane.
    """
    own = pending.get(lane, 0)
    others = sum(min(count, own + 1) for other, count in pending.items() if other != lane)
    return front + own + others


def estimated_wait_s(config: BeaconConfig, model: str, ahead: int) -> float:
    """Assumes that all jobs ahead use the same model: their run time divided by the slots that serve it."""
    if model not in config.models:
        return 0.0
    slots = sum(backend.slots for backend in config.backends.values() if model in backend.models)
    return round(ahead * config.models[model].expected_run_s / max(slots, 1), 2)
