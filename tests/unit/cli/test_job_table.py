"""The board of `beacon watch`."""

from datetime import UTC, datetime
from typing import Any

from rich.console import Console

from beacon_cli.output.job_table import describe_event, job_board
from beacon_contracts.events import EventType, JobEvent
from beacon_contracts.ids import JobId, encode_execution_id, encode_job_id, new_uuid
from beacon_contracts.jobs import JobView

JOB = JobId(new_uuid())
AT = datetime(2026, 1, 1, tzinfo=UTC)


def job(*progress: dict[str, Any] | None, percent: float = 0.0) -> JobView:
    """A running matrix with an execution for each of these."""
    executions = [
        {
            "id": encode_execution_id(JOB, 0, number),
            "job_id": encode_job_id(JOB),
            "stage": 0,
            "item": f"q{number}",
            "model": "flux",
            "region": "US",
            "state": "running",
            "attempt": 1,
            "progress": one,
        }
        for number, one in enumerate(progress)
    ]
    counts = {"total": len(progress), "pending": 0, "running": len(progress)}
    counts |= {"completed": 0, "failed": 0, "cancelled": 0}
    return JobView.model_validate(
        {
            "job_id": encode_job_id(JOB),
            "kind": "matrix",
            "name": "",
            "status": "processing",
            "tier": "free",
            "priority": "low",
            "stage": 0,
            "stages": 1,
            "progress": counts | {"percent": percent},
            "attempt": 1,
            "created_at": AT,
            "executions": executions,
        }
    )


def drawn(view: JobView) -> list[str]:
    console = Console(width=120, force_terminal=False, color_system=None)
    with console.capture() as captured:
        console.print(job_board(view))
    return captured.get().splitlines()


def test_a_running_execution_has_a_bar_with_percent_and_message() -> None:
    lines = drawn(job({"percent": 50.0, "message": "step 10 of 20"}, None))
    (line,) = (line for line in lines if "step 10 of 20" in line)
    assert "q0 flux US" in line
    assert "━" in line
    assert "50 %" in line
    assert not [line for line in lines if "q1 flux US" in line]


def test_a_run_without_a_percent_shows_its_message() -> None:
    (line,) = (line for line in drawn(job({"message": "loading weights"})) if "loading weights" in line)
    assert "━" not in line
    assert "%" not in line


def test_many_running_executions_are_cut() -> None:
    lines = drawn(job(*[{"percent": 10.0}] * 20))
    assert len([line for line in lines if "10 %" in line]) == 8
    assert any("and 12 more" in line for line in lines)


def test_the_bar_of_the_job_contains_running_executions() -> None:
    bars = [drawn(job(None, None, percent=percent))[1].count("━") for percent in (0.0, 25.0)]
    assert bars == [0, 10]


def test_an_event_of_progress_is_one_line() -> None:
    data = {
        "execution_id": encode_execution_id(JOB, 0, 0),
        "item": "q0",
        "model": "flux",
        "region": "US",
        "attempt": 1,
        "percent": 45.0,
        "message": "step 9 of 20",
        "preview": "data:image/png;base64,AAAA",
    }
    event = JobEvent(seq=3, type=EventType.EXECUTION_PROGRESS, job_id=encode_job_id(JOB), at=AT, data=data)
    assert describe_event(event) == "item=q0  model=flux  region=US  45 %  step 9 of 20"
    assert event.progress is not None
    assert (event.progress.percent, event.progress.preview) == (45.0, data["preview"])
    assert event.model_copy(update={"type": EventType.JOB_QUEUED}).progress is None
