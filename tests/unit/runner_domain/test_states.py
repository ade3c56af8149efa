import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from beacon_contracts.jobs import ExecutionState, JobState
from beacon_runner.domain.states import EXECUTION_TRANSITIONS, JOB_TRANSITIONS, LIVE, TERMINAL, may_become

DOCUMENT = Path(__file__).parents[3] / "docs" / "job-states.md"
_ARROW = re.compile(r"^\s+(\w+) --> (\w+): (.+)$", re.MULTILINE)


def drawn(number: int) -> set[tuple[str, str, str]]:
    picture = DOCUMENT.read_text(encoding="utf-8").split("```mermaid")[number]
    return set(_ARROW.findall(picture.split("```")[0]))


def listed(table: Mapping[Any, tuple[tuple[str, str], ...]]) -> set[tuple[str, str, str]]:
    return {(str(old), str(new), str(what)) for what, pairs in table.items() for old, new in pairs}


def test_the_picture_of_jobs_is_the_table() -> None:
    assert drawn(1) == listed(JOB_TRANSITIONS)


def test_the_picture_of_executions_is_the_table() -> None:
    assert drawn(2) == listed(EXECUTION_TRANSITIONS)


def test_every_state_is_reached() -> None:
    assert {new for pairs in JOB_TRANSITIONS.values() for _, new in pairs} == set(JobState)
    reached = {new for pairs in EXECUTION_TRANSITIONS.values() for _, new in pairs}
    assert reached == set(ExecutionState)


def test_completed_and_cancelled_jobs_stay_as_they_are() -> None:
    for new in JobState:
        assert not may_become(JobState.COMPLETED, new)
        assert not may_become(JobState.CANCELLED, new)


def test_what_has_ended_goes_back_to_work_only_by_way_of_the_queue() -> None:
    for old in TERMINAL:
        for new in LIVE - {JobState.QUEUED}:
            assert not may_become(old, new)
