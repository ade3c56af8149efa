"""Minimal valid responses of the runner."""

from typing import Any

AT = "2026-01-01T00:00:00Z"
ACCEPTED: dict[str, Any] = {
    "job_id": "job_a",
    "status": "queued",
    "tier": "free",
    "priority": "low",
    "position": 1,
    "estimated_wait_s": 2.5,
    "links": {},
}


def summary(job_id: str = "job_a", **more: Any) -> dict[str, Any]:
    progress = {
        "total": 1,
        "pending": 1,
        "running": 0,
        "completed": 0,
        "failed": 0,
        "cancelled": 0,
        "percent": 0.0,
    }
    return {
        "job_id": job_id,
        "kind": "generation",
        "name": "",
        "status": "queued",
        "tier": "free",
        "priority": "low",
        "stage": 0,
        "stages": 1,
        "progress": progress,
        "attempt": 1,
        "created_at": AT,
        **more,
    }


def job(job_id: str = "job_a", **more: Any) -> dict[str, Any]:
    return summary(job_id, **{"executions": [], **more})


def execution(number: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "id": f"exe_a.0.{number}",
        "job_id": "job_a",
        "stage": 0,
        "item": "q1",
        "model": "flux",
        "region": "US",
        "state": "pending",
        "attempt": 1,
        **more,
    }
