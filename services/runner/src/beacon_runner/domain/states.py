"""Which states follow which. docs/job-states.md draws these tables; a test compares them."""

from collections.abc import Mapping

from beacon_contracts.jobs import ExecutionState, JobState

J = JobState
E = ExecutionState

LIVE = frozenset({J.QUEUED, J.PROCESSING, J.RETRYING})
TERMINAL = frozenset(JobState) - LIVE

# What happens -> (from, to). The same happening may start in several states.
JOB_TRANSITIONS: Mapping[str, tuple[tuple[JobState, JobState], ...]] = {
    "claimed": ((J.QUEUED, J.PROCESSING), (J.RETRYING, J.PROCESSING), (J.PROCESSING, J.PROCESSING)),
    "next stage": ((J.PROCESSING, J.QUEUED),),
    "returned": ((J.PROCESSING, J.QUEUED),),
    "postponed": ((J.PROCESSING, J.QUEUED),),
    "retry later": ((J.PROCESSING, J.RETRYING),),
    "all completed": ((J.PROCESSING, J.COMPLETED),),
    "some failed": ((J.PROCESSING, J.PARTIAL),),
    "all failed": ((J.PROCESSING, J.FAILED),),
    "poison": tuple(
        (old, new) for new in (J.FAILED, J.PARTIAL) for old in (J.QUEUED, J.PROCESSING, J.RETRYING)
    ),
    "cancelled": ((J.QUEUED, J.CANCELLED), (J.PROCESSING, J.CANCELLED), (J.RETRYING, J.CANCELLED)),
    "resumed": ((J.FAILED, J.QUEUED), (J.PARTIAL, J.QUEUED)),
    "one retried": ((J.FAILED, J.QUEUED), (J.PARTIAL, J.QUEUED)),
    "requeued": ((J.FAILED, J.QUEUED), (J.PARTIAL, J.QUEUED)),
}

EXECUTION_TRANSITIONS: Mapping[str, tuple[tuple[ExecutionState, ExecutionState], ...]] = {
    "started": ((E.PENDING, E.RUNNING),),
    "completed": ((E.RUNNING, E.COMPLETED),),
    "failed": ((E.RUNNING, E.FAILED),),
    "not taken": ((E.RUNNING, E.PENDING),),
    "poison": ((E.PENDING, E.FAILED), (E.RUNNING, E.FAILED)),
    "cancelled": ((E.PENDING, E.CANCELLED), (E.RUNNING, E.CANCELLED)),
    "tried again": ((E.FAILED, E.PENDING),),
    "requeued": ((E.FAILED, E.PENDING), (E.CANCELLED, E.PENDING)),
}


def may_become(old: JobState, new: JobState) -> bool:
    return any((old, new) in pairs for pairs in JOB_TRANSITIONS.values())


def execution_may_become(old: ExecutionState, new: ExecutionState) -> bool:
    return any((old, new) in pairs for pairs in EXECUTION_TRANSITIONS.values())
