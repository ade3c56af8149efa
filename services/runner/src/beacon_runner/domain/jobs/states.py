"""The transitions of jobs and executions. docs/job-states.md shows these tables; a test compares them."""

from collections.abc import Mapping
from enum import StrEnum

from beacon_contracts.jobs import ExecutionState, JobState

J = JobState
E = ExecutionState

WAITING = frozenset({J.SCHEDULED, J.QUEUED, J.RETRYING})
LIVE = WAITING | {J.PROCESSING}
TERMINAL = frozenset(JobState) - LIVE


class JobTransition(StrEnum):
    DUE = "due"
    ADMITTED = "admitted"
    CLAIMED = "claimed"
    STARTED = "started"
    NEXT_STAGE = "next stage"
    DEFERRED = "deferred"
    RETRY_LATER = "retry later"
    ALL_COMPLETED = "all completed"
    SOME_FAILED = "some failed"
    ALL_FAILED = "all failed"
    POISON = "poison"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    RESUMED = "resumed"
    EXECUTION_RETRIED = "execution retried"
    REQUEUED = "requeued"
    HELD = "held"


class ExecutionTransition(StrEnum):
    ACCEPTED = "accepted"
    STARTED = "started"
    WAITS_AGAIN = "waits again"
    COMPLETED = "completed"
    FAILED = "failed"
    NOT_TAKEN = "not taken"
    HELD = "held"
    POISON = "poison"
    CANCELLED = "cancelled"
    RETRIED = "retried"
    REQUEUED = "requeued"


JobSteps = tuple[tuple[JobState, JobState], ...]
ExecutionSteps = tuple[tuple[ExecutionState, ExecutionState], ...]

JOB_TRANSITIONS: Mapping[JobTransition, JobSteps] = {
    JobTransition.DUE: ((J.SCHEDULED, J.QUEUED),),
    JobTransition.ADMITTED: ((J.SCHEDULED, J.QUEUED),),
    JobTransition.CLAIMED: ((J.SCHEDULED, J.QUEUED), (J.RETRYING, J.QUEUED)),
    JobTransition.STARTED: ((J.QUEUED, J.PROCESSING),),
    JobTransition.NEXT_STAGE: ((J.PROCESSING, J.QUEUED),),
    JobTransition.DEFERRED: ((J.PROCESSING, J.QUEUED),),
    JobTransition.RETRY_LATER: ((J.PROCESSING, J.RETRYING), (J.QUEUED, J.RETRYING)),
    JobTransition.ALL_COMPLETED: ((J.PROCESSING, J.COMPLETED),),
    JobTransition.SOME_FAILED: ((J.PROCESSING, J.PARTIAL), (J.QUEUED, J.PARTIAL)),
    JobTransition.ALL_FAILED: ((J.PROCESSING, J.FAILED), (J.QUEUED, J.FAILED)),
    JobTransition.POISON: (
        (J.PROCESSING, J.FAILED),
        (J.PROCESSING, J.PARTIAL),
        (J.QUEUED, J.FAILED),
        (J.QUEUED, J.PARTIAL),
    ),
    JobTransition.CANCELLED: (
        (J.SCHEDULED, J.CANCELLED),
        (J.QUEUED, J.CANCELLED),
        (J.PROCESSING, J.CANCELLED),
        (J.RETRYING, J.CANCELLED),
    ),
    JobTransition.EXPIRED: (
        (J.SCHEDULED, J.EXPIRED),
        (J.QUEUED, J.EXPIRED),
        (J.PROCESSING, J.EXPIRED),
        (J.RETRYING, J.EXPIRED),
    ),
    JobTransition.RESUMED: (
        (J.FAILED, J.QUEUED),
        (J.PARTIAL, J.QUEUED),
        (J.EXPIRED, J.QUEUED),
        (J.EXPIRED, J.SCHEDULED),
        (J.SCHEDULED, J.QUEUED),
    ),
    JobTransition.EXECUTION_RETRIED: (
        (J.FAILED, J.QUEUED),
        (J.PARTIAL, J.QUEUED),
        (J.RETRYING, J.QUEUED),
    ),
    JobTransition.REQUEUED: ((J.FAILED, J.QUEUED), (J.PARTIAL, J.QUEUED)),
    JobTransition.HELD: ((J.PROCESSING, J.QUEUED), (J.RETRYING, J.QUEUED)),
}

EXECUTION_TRANSITIONS: Mapping[ExecutionTransition, ExecutionSteps] = {
    ExecutionTransition.ACCEPTED: ((E.PENDING, E.QUEUED),),
    ExecutionTransition.STARTED: ((E.PENDING, E.RUNNING), (E.QUEUED, E.RUNNING)),
    ExecutionTransition.WAITS_AGAIN: ((E.RUNNING, E.QUEUED),),
    ExecutionTransition.COMPLETED: ((E.RUNNING, E.COMPLETED),),
    ExecutionTransition.FAILED: ((E.PENDING, E.FAILED), (E.QUEUED, E.FAILED), (E.RUNNING, E.FAILED)),
    ExecutionTransition.NOT_TAKEN: ((E.QUEUED, E.PENDING), (E.RUNNING, E.PENDING)),
    ExecutionTransition.HELD: ((E.QUEUED, E.PENDING), (E.RUNNING, E.PENDING)),
    ExecutionTransition.POISON: ((E.PENDING, E.FAILED), (E.QUEUED, E.FAILED), (E.RUNNING, E.FAILED)),
    ExecutionTransition.CANCELLED: (
        (E.PENDING, E.CANCELLED),
        (E.QUEUED, E.CANCELLED),
        (E.RUNNING, E.CANCELLED),
    ),
    ExecutionTransition.RETRIED: ((E.FAILED, E.PENDING),),
    ExecutionTransition.REQUEUED: ((E.FAILED, E.PENDING), (E.CANCELLED, E.PENDING)),
}


class IllegalTransitionError(Exception):
    """The transition table does not have this step."""


def allows(transition: JobTransition, state: JobState) -> bool:
    """Whether the transition can start in that state."""
    return any(old is state for old, _ in JOB_TRANSITIONS[transition])


def execution_allows(transition: ExecutionTransition, state: ExecutionState) -> bool:
    return any(old is state for old, _ in EXECUTION_TRANSITIONS[transition])


def move(transition: JobTransition, old: JobState, new: JobState) -> JobState:
    """The new state, if the table has this step."""
    if (old, new) not in JOB_TRANSITIONS[transition]:
        raise IllegalTransitionError(f"a job that is {old} cannot become {new}: {transition}")
    return new
