"""Jobs, plans and reports for the tests of the domain."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from beacon_config import BeaconConfig, load_config
from beacon_contracts.failures import Failure, FailureStage
from beacon_contracts.ids import JobId, UserId
from beacon_contracts.jobs import ExecutionState
from beacon_runner.domain.execution.stage_result import (
    ClaimedJob,
    ExecutionReport,
    PlannedExecution,
    RecordedExecution,
)

JOB = JobId(UUID(int=7))
USER = UserId(UUID(int=8))
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def shipped_config() -> BeaconConfig:
    return load_config(Path(__file__).parents[3] / "config" / "beacon.toml", {})


def claimed(spec: dict[str, Any], **more: Any) -> ClaimedJob:
    kind = "pipeline" if "steps" in spec else "matrix" if "questions" in spec else "generation"
    fields: dict[str, Any] = {
        "id": JOB,
        "user": USER,
        "fence": 1,
        "generation": 1,
        "stage": 0,
        "stages": len(spec.get("steps", [0])),
        "attempt": 1,
        "kind": kind,
        "spec": spec,
        "context": {},
        "tier": "free",
        "front": False,
    }
    return ClaimedJob(**fields | more)


def matrix_spec(questions: int = 2) -> dict[str, Any]:
    return {
        "questions": [{"id": f"q{number}", "prompt": f"why {number}?"} for number in range(questions)],
        "targets": [["llama", ["US", "EU"]]],
    }


def pipeline_spec(attempts: int = 3) -> dict[str, Any]:
    def step(name: str, given: dict[str, Any]) -> dict[str, Any]:
        return {"name": name, "model": name, "region": "US", "attempts": attempts, "input": given}

    return {
        "input": {"prompt": "a city"},
        "steps": [
            step("enhance", {"prompt": "{{ input.prompt }}"}),
            step("draw", {"prompt": "{{ enhance.text }}", "seed": 4}),
        ],
    }


def failure(*, retryable: bool, code: str = "boom") -> Failure:
    return Failure(code=code, stage=FailureStage.RUN, retryable=retryable, message="it broke")


def completed(execution: PlannedExecution, output: Any = "ok", **more: Any) -> ExecutionReport:
    return ExecutionReport(execution, ExecutionState.COMPLETED, 1, output, started_at=NOW.timestamp(), **more)


def failed(execution: PlannedExecution, *, retryable: bool, code: str = "boom") -> ExecutionReport:
    found = failure(retryable=retryable, code=code)
    return ExecutionReport(execution, ExecutionState.FAILED, 1, failure=found, started_at=NOW.timestamp())


def known(ordinal: int, state: ExecutionState, attempt: int = 1, **more: Any) -> RecordedExecution:
    return RecordedExecution(ordinal, state, attempt, **more)
