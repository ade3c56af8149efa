"""Submission: check, admit, store in a shared commit, estimate the wait. Single jobs and batches share it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

import orjson

from beacon_config import BeaconConfig
from beacon_contracts.ids import JobId
from beacon_contracts.jobs import JobState
from beacon_contracts.problem import FieldProblem
from beacon_contracts.tiers import JobClass
from beacon_runner.application.wait_estimator import WaitEstimator
from beacon_runner.domain.admission import Admission, Submission
from beacon_runner.domain.errors import (
    BatchExceedsLimitError,
    IdempotencyKeyReusedError,
    InvalidFieldsError,
    LimitReachedError,
)
from beacon_runner.domain.job_ids import new_job_id, new_job_ids
from beacon_runner.domain.lanes import lane_at_submission
from beacon_runner.domain.plan import first_target
from beacon_runner.domain.quotas import Allowance, LimitReached, exceeds_limit
from beacon_runner.domain.submissions import Answer, KeyTaken, NewJob, Submitted
from beacon_runner.domain.users import Principal
from beacon_runner.ports.priorities import Priorities
from beacon_runner.ports.submissions import SubmissionStore


@dataclass(frozen=True, slots=True)
class AcceptedJob:
    """A stored job; position and wait are None when they are unknown or it does not wait."""

    job: Submitted
    position: int | None
    estimated_wait_s: float | None


@dataclass(frozen=True, slots=True)
class SubmissionService:
    config: BeaconConfig
    admission: Admission
    store: SubmissionStore
    estimator: WaitEstimator
    priorities: Priorities

    async def submit(
        self, principal: Principal, submissions: Sequence[Submission], key: str | None, *, batch: bool
    ) -> list[AcceptedJob]:
        """Store all of the jobs or none. Jobs of an earlier request with the same key are returned."""
        self.estimator.start_refresh()
        self._check_batch_size(len(submissions))
        ids = new_job_ids(len(submissions)) if batch else [new_job_id()]
        jobs = self._admit(principal, submissions, ids, batch=batch)
        # Asked only for valid submissions: the priority service may be slow.
        job_class = await self.priorities.class_of(principal.user, jobs[0].job_class)
        if job_class is not jobs[0].job_class:
            jobs = [replace(job, job_class=job_class) for job in jobs]
        if key is None:
            answers = await self.store.submit(jobs)
        elif batch:
            answers = await self.store.submit_batch(jobs, key, _hash(submissions))
        else:
            keyed = replace(jobs[0], idempotency_key=key, request_hash=_hash(submissions))
            answers = await self.store.submit([keyed])
        return await self._accepted(jobs, await self._stored(jobs, answers))

    def _check_batch_size(self, size: int) -> None:
        allowed = self.config.limits.batch_jobs
        if size > allowed:
            message = f"a batch may have {allowed} jobs, this one has {size}"
            raise InvalidFieldsError.of("jobs", message, "too_many")

    def _admit(
        self, principal: Principal, submissions: Sequence[Submission], ids: Sequence[JobId], *, batch: bool
    ) -> list[NewJob]:
        """All jobs in normal form, or an error that names what is wrong with each."""
        tier = self.config.tiers[principal.tier]
        lane = lane_at_submission(self.config.lanes, principal.user)
        allowance = Allowance.of(tier)
        jobs: list[NewJob] = []
        problems: list[FieldProblem] = []
        for index, submission in enumerate(submissions):
            try:
                admitted = self.admission.admit(submission, ids[index].int)
                admitted.check_duration(principal.tier, tier.max_duration_s)
            except InvalidFieldsError as error:
                prefix = f"jobs[{index}]." if batch else ""
                problems += [
                    problem.model_copy(update={"field": prefix + problem.field}) for problem in error.problems
                ]
            else:
                jobs.append(
                    NewJob(
                        ids[index],
                        principal.user,
                        principal.tier,
                        tier.job_class,
                        lane,
                        admitted,
                        batch=batch,
                        allowance=allowance,
                    )
                )
        if problems:
            raise InvalidFieldsError(problems)
        return jobs

    async def _stored(self, jobs: Sequence[NewJob], answers: Sequence[Answer]) -> list[Submitted]:
        """The stored jobs; raises when a limit was reached or the key belongs to another request."""
        stored: list[Submitted] = []
        reached: dict[int, LimitReached] = {}
        for index, answer in enumerate(answers):
            if isinstance(answer, KeyTaken):
                raise IdempotencyKeyReusedError(answer.job)
            if isinstance(answer, LimitReached):
                reached[index] = answer
            else:
                stored.append(answer)
        if not reached:
            return stored
        first = jobs[0]
        # Checked only now: a batch that an earlier request has stored is returned, whatever its size.
        exceeds = exceeds_limit(len(jobs), first.allowance, self.config.limits.queue_size)
        if exceeds is not None:
            raise BatchExceedsLimitError(exceeds, first.tier)
        raise LimitReachedError(reached, first.tier, await self._turn_s(first), batch=first.batch)

    async def _accepted(self, jobs: Sequence[NewJob], stored: Sequence[Submitted]) -> list[AcceptedJob]:
        """With position and wait, estimated once for each class and target of a batch."""
        estimates: dict[tuple[JobClass, object], tuple[int | None, float | None]] = {}
        accepted: list[AcceptedJob] = []
        for job, submitted in zip(jobs, stored, strict=True):
            position: int | None = None
            wait_s: float | None = None
            if submitted.state is JobState.QUEUED:
                same = (submitted.job_class, first_target(job.admitted.spec))
                if same not in estimates:
                    position = await self.estimator.position_if_enqueued(submitted.job_class, job.lane)
                    estimates[same] = position, self.estimator.wait_s(job.admitted.spec, position)
                position, wait_s = estimates[same]
            accepted.append(AcceptedJob(submitted, position, wait_s))
        return accepted

    async def _turn_s(self, job: NewJob) -> float:
        """About how long until one of the user's jobs has ended: the wait in its lane, and a run."""
        position = await self.estimator.position_if_enqueued(job.job_class, job.lane)
        wait_s = self.estimator.wait_s(job.admitted.spec, position) or 0.0
        model, _ = first_target(job.admitted.spec)
        return wait_s + self.config.models[model].expected_run_s


def _hash(submissions: Sequence[Submission]) -> bytes:
    """Equal for requests that mean the same, whatever their whitespace and order of fields."""
    documents = [submission.model_dump(mode="json") for submission in submissions]
    return sha256(orjson.dumps(documents, option=orjson.OPT_SORT_KEYS)).digest()
