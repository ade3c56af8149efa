"""Searches of the list of jobs, for the jobs of sql/many_jobs.sql."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from beacon_contracts.ids import UserId
from beacon_contracts.jobs import JobState
from beacon_runner.domain.jobs.states import LIVE, TERMINAL

ONE = UserId(UUID("00000000-0000-7000-8000-000000000001"))
HALF_AN_HOUR_AGO = datetime.now(UTC) - timedelta(minutes=30)
UNSUCCESSFUL = tuple(TERMINAL - {JobState.COMPLETED})

FILTERS: list[dict[str, Any]] = [
    {},
    *({"states": (state,)} for state in JobState),
    {"states": tuple(LIVE)},
    {"states": UNSUCCESSFUL},
    {"states": (JobState.QUEUED, JobState.FAILED)},
    *({"kind": kind} for kind in ("generation", "matrix", "pipeline")),
    *({"model": model} for model in ("model-1", "rare", "unknown")),
    *({"tags": (tag,)} for tag in ("common", "few", "unknown")),
    {"tags": ("common", "few")},
    {"metadata": {"team": "blue"}},
    {"metadata": {"team": "red"}},
    *({"name": name} for name in ("run", "RUN 19", "run 1501", "unknown")),
    {"created_before": HALF_AN_HOUR_AGO},
    {"created_after": HALF_AN_HOUR_AGO, "kind": "pipeline"},
    {"states": (JobState.COMPLETED,), "name": "unknown"},
    {"states": (JobState.COMPLETED,), "kind": "matrix", "model": "rare"},
    {"states": (JobState.SCHEDULED,), "model": "model-2"},
    {"states": (JobState.EXPIRED,), "model": "rare"},
    {"tags": ("common",), "model": "unknown"},
    {"tags": ("common",), "model": "rare"},
    {"tags": ("common",), "metadata": {"team": "red"}},
    {"tags": ("common",), "kind": "pipeline"},
    {"states": UNSUCCESSFUL, "tags": ("few",)},
    {"tags": ("common",), "states": (JobState.SCHEDULED,)},
    {"kind": "generation", "name": "unknown"},
]
