import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from beacon_contracts.jobs import ExecutionState, JobState
from beacon_runner.domain.jobs.states import (
    EXECUTION_TRANSITIONS,
    JOB_TRANSITIONS,
    TERMINAL,
    IllegalTransitionError,
    JobTransition,
    move,
)

DOCS = Path(__file__).parents[3] / "docs"
_ARROW = re.compile(r"^\s+(\w+) --> (\w+): (.+)$", re.MULTILINE)


def drawn(document: str, number: int) -> set[tuple[str, str, str]]:
    """The arrows of a diagram; a label with commas stands for several transitions."""
    diagram = (DOCS / document).read_text(encoding="utf-8").split("```mermaid")[number]
    arrows = _ARROW.findall(diagram.split("```")[0])
    return {(old, new, what) for old, new, labels in arrows for what in labels.split(", ")}


def listed(table: Mapping[Any, tuple[tuple[str, str], ...]]) -> set[tuple[str, str, str]]:
    return {(str(old), str(new), str(what)) for what, pairs in table.items() for old, new in pairs}


def test_the_diagram_of_jobs_equals_the_table() -> None:
    assert drawn("job-states.md", 1) == listed(JOB_TRANSITIONS)


def test_the_diagram_of_executions_equals_the_table() -> None:
    assert drawn("job-states.md", 2) == listed(EXECUTION_TRANSITIONS)


def test_the_diagram_in_the_architecture_omits_only_jobs_that_fail_without_a_run() -> None:
    omitted = listed(JOB_TRANSITIONS) - drawn("architecture.md", 2)
    assert drawn("architecture.md", 2) <= listed(JOB_TRANSITIONS)
    failed_in_queue = {"some failed", "all failed", "retry later"}
    assert {(old, what) for old, _, what in omitted if what != "poison"} == {
        ("queued", what) for what in failed_in_queue
    }


def test_every_state_is_reached() -> None:
    initial = {JobState.SCHEDULED}
    assert initial | {new for pairs in JOB_TRANSITIONS.values() for _, new in pairs} == set(JobState)
    reached = {new for pairs in EXECUTION_TRANSITIONS.values() for _, new in pairs}
    assert reached == set(ExecutionState)


def test_completed_and_cancelled_jobs_stay_as_they_are() -> None:
    left = {old for pairs in JOB_TRANSITIONS.values() for old, _ in pairs}
    assert left & TERMINAL == {JobState.FAILED, JobState.PARTIAL, JobState.EXPIRED}


def test_an_ended_job_becomes_live_only_by_the_queue() -> None:
    """Or by the wait for a limit during which it expired."""
    steps = {pair for pairs in JOB_TRANSITIONS.values() for pair in pairs}
    again = {(old, new) for old, new in steps if old in TERMINAL and new is not JobState.QUEUED}
    assert again == {(JobState.EXPIRED, JobState.SCHEDULED)}


def test_a_transition_outside_the_table_is_refused() -> None:
    with pytest.raises(IllegalTransitionError, match="retrying cannot become processing"):
        move(JobTransition.STARTED, JobState.RETRYING, JobState.PROCESSING)
