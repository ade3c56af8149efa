from dataclasses import replace

import pytest

from beacon_config.retention import RetentionConfig
from beacon_contracts.jobs import JobState
from beacon_runner.domain.jobs.retention import Removal, RetentionCandidate, is_expired
from beacon_runner.domain.jobs.states import LIVE, TERMINAL
from tests.unit.runner_domain.factories import JOB

KEPT = RetentionConfig(events_s=100, idempotency_s=200, jobs_s=300)
OLD = RetentionCandidate(JOB, JobState.COMPLETED, 1, submitted_s=1e6, ended_s=1e6)


def expired(job: RetentionCandidate) -> set[Removal]:
    return {removal for removal in Removal if is_expired(removal, job, KEPT)}


@pytest.mark.parametrize("state", sorted(TERMINAL))
def test_an_old_ended_job_is_removed_with_its_events_and_key(state: JobState) -> None:
    assert expired(replace(OLD, state=state)) == set(Removal)


@pytest.mark.parametrize("state", sorted(LIVE))
def test_a_live_job_loses_only_its_key_whatever_its_age(state: JobState) -> None:
    assert expired(replace(OLD, state=state, ended_s=None)) == {Removal.IDEMPOTENCY_KEYS}


@pytest.mark.parametrize(("ended_s", "removed"), [(100, 0), (101, 1), (300, 1), (301, 2)])
def test_jobs_and_events_are_kept_after_the_end_of_the_job(ended_s: float, removed: int) -> None:
    job = replace(OLD, ended_s=ended_s)
    assert expired(job) == {Removal.IDEMPOTENCY_KEYS, *[Removal.EVENTS, Removal.JOBS][:removed]}


def test_a_key_is_kept_after_the_submission_of_the_job() -> None:
    assert not is_expired(Removal.IDEMPOTENCY_KEYS, replace(OLD, submitted_s=200), KEPT)
    assert is_expired(Removal.IDEMPOTENCY_KEYS, replace(OLD, submitted_s=201), KEPT)
