"""Estimates from counts: how many jobs are served before one, and how long that takes."""

from collections import Counter
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


def seconds_per_job(config: BeaconConfig) -> dict[str, float]:
    """For each model: its run time divided by the slots that serve it.

    The wait of a job is this times the jobs ahead, which assumes that all of them use the same model.
    """
    slots = Counter[str]()
    for backend in config.backends.values():
        slots.update(dict.fromkeys(backend.models, backend.slots))
    return {name: model.expected_run_s / max(slots[name], 1) for name, model in config.models.items()}
