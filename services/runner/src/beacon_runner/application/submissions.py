"""Submission: check, admit, store in a shared commit, estimate the wait. Single jobs and batches share it."""

from collections.abc import Sequence
from datetime import datetime
from hashlib import sha256
from typing import NamedTuple

import orjson

from beacon_config import BeaconConfig, Derived, LiveConfig
from beacon_contracts.ids import JobId, new_uuid
from beacon_contracts.jobs import JobState
from beacon_contracts.problem import FieldProblem
from beacon_lifecycle import Clock
from beacon_runner.application.queue_position import WAITS_FOR_LIMIT
from beacon_runner.application.wait_estimator import WaitEstimator
from beacon_runner.application.webhooks import WebhookService
from beacon_runner.domain.accounts.users import Principal
from beacon_runner.domain.errors import (
    BatchExceedsLimitError,
    IdempotencyKeyReusedError,
    InvalidFieldsError,
    LimitReachedError,
)
from beacon_runner.domain.execution.plan import first_target
from beacon_runner.domain.files.file_references import unknown_file
from beacon_runner.domain.jobs.admission import Admission, Submission
from beacon_runner.domain.jobs.job_ids import new_job_ids
from beacon_runner.domain.jobs.schedule import has_past_time, schedule_of
from beacon_runner.domain.jobs.submissions import Answer, FilesUnusable, KeyTaken, NewJob, Submitted
from beacon_runner.domain.limits.job_quota import Allowance, LimitReached, exceeds_limit
from beacon_runner.domain.queue.lanes import lane_at_submission
from beacon_runner.domain.queue.wait_estimate import WaitEstimate
from beacon_runner.ports.priorities import Priorities
from beacon_runner.ports.submissions import SubmissionStore

_OPTIONAL = frozenset({"not_before", "expires_at", "on_limit", "webhook_url", "webhook_events"})


class AcceptedJob(NamedTuple):
    job: Submitted
    estimate: WaitEstimate


class SubmissionService:
    """`priorities` None: the tier decides about the class."""

    def __init__(
        self,
        live: LiveConfig,
        admission: Derived[Admission],
        store: SubmissionStore,
        estimator: WaitEstimator,
        *,
        priorities: Priorities | None,
        clock: Clock,
        webhooks: WebhookService,
    ) -> None:
        self._live = live
        self._admission = admission
        self._store = store
        self._estimator = estimator
        self._priorities = priorities
        self._clock = clock
        self._webhooks = webhooks
        self._allowances = Derived(live, _allowances)

    async def submit(
        self, principal: Principal, submissions: Sequence[Submission], key: str | None, *, batch: bool
    ) -> list[AcceptedJob]:
        """Store all of the jobs or none. Jobs of an earlier request with the same key are returned."""
        self._estimator.start_refresh()
        now = self._clock.wall()
        is_repeated = False
        if key is not None and any(has_past_time(one, now) for one in submissions):
            # A repeated request is answered with its jobs, although their times have passed since.
            is_repeated = await self._store.is_key_used(principal.user, key)
        jobs = self._admit(principal, submissions, None if is_repeated else now, batch=batch)
        if self._priorities is not None:  # asked only for valid submissions: it may be slow
            job_class = await self._priorities.class_of(principal.user, jobs[0].job_class)
            jobs = [job._replace(job_class=job_class) for job in jobs]
        if any(job.webhook is not None for job in jobs):
            await self._webhooks.ensure_for_jobs(principal.user)
        if key is None:
            answers = await self._store.submit(jobs)
        elif batch:
            answers = await self._store.submit_batch(jobs, key, _hash(submissions))
        else:
            keyed = jobs[0]._replace(idempotency_key=key, request_hash=_hash(submissions))
            answers = await self._store.submit([keyed])
        stored = [answer for answer in answers if isinstance(answer, Submitted)]
        if len(stored) < len(jobs):
            raise await self._refusal(jobs, answers)
        return await self._accepted(jobs, stored)

    def _admit(
        self, principal: Principal, submissions: Sequence[Submission], now: datetime | None, *, batch: bool
    ) -> list[NewJob]:
        """All jobs in normal form, or an error that names what is wrong with each."""
        config, admission = self._live.current, self._admission()
        tier, count, allowed = config.known_tier(principal.tier), len(submissions), config.limits.batch_jobs
        if count > allowed:
            message = f"a batch may have {allowed} jobs, this one has {count}"
            raise InvalidFieldsError.of("jobs", message, "too_many")
        ids = new_job_ids(count) if batch else [JobId(new_uuid())]
        job_class = config.tiers[tier].job_class
        lane = lane_at_submission(config.lanes, principal.user)
        allowance = self._allowances()[tier]
        jobs: list[NewJob] = []
        problems: list[FieldProblem] = []
        for index, (job_id, submission) in enumerate(zip(ids, submissions, strict=True)):
            schedule = webhook = None
            try:
                admitted = admission.admit(submission, job_id.int, tier)
                if not _OPTIONAL.isdisjoint(submission.model_fields_set):
                    schedule = schedule_of(submission, now)
                    webhook = self._webhooks.of_job(submission)
            except InvalidFieldsError as error:
                prefix = f"jobs[{index}]." if batch else ""
                problems += [one.model_copy(update={"field": prefix + one.field}) for one in error.problems]
                continue
            jobs.append(
                NewJob(
                    job_id,
                    principal.user,
                    tier,
                    job_class,
                    lane,
                    admitted,
                    batch,
                    allowance,
                    webhook=webhook,
                    schedule=schedule,
                    key=principal.key,
                )
            )
        if problems:
            raise InvalidFieldsError(problems)
        return jobs

    async def _accepted(self, jobs: Sequence[NewJob], stored: Sequence[Submitted]) -> list[AcceptedJob]:
        """With position and wait, of jobs that are still queued."""
        if all(submitted.created and submitted.state is JobState.QUEUED for submitted in stored):
            found = await self._estimator.of_new(jobs)
            return [AcceptedJob(*pair) for pair in zip(stored, found, strict=True)]
        accepted: list[AcceptedJob] = []
        for job, submitted in zip(jobs, stored, strict=True):  # stored earlier, or scheduled
            estimate = self._until_start(job) if submitted.state is JobState.SCHEDULED else WaitEstimate()
            if submitted.state is JobState.QUEUED:
                known = job._replace(job_class=submitted.job_class)
                (estimate,) = await self._estimator.of_new([known], accepted=submitted.created)
            accepted.append(AcceptedJob(submitted, estimate))
        return accepted

    def _until_start(self, job: NewJob) -> WaitEstimate:
        """A scheduled job waits at least until its time."""
        if job.schedule is None or job.schedule.not_before is None:
            return WaitEstimate(reason=WAITS_FOR_LIMIT)
        seconds = (job.schedule.not_before - self._clock.wall()).total_seconds()
        return WaitEstimate(wait_s=round(max(0.0, seconds), 2))

    async def _refusal(self, jobs: Sequence[NewJob], answers: Sequence[Answer]) -> Exception:
        """The error for a submission of which something was not stored."""
        first = jobs[0]
        fields = [
            f"jobs[{index}].{field}" if first.batch else field
            for index, answer in enumerate(answers)
            if isinstance(answer, FilesUnusable)
            for field in answer.fields
        ]
        if fields:
            return InvalidFieldsError([unknown_file(field) for field in fields])
        for answer in answers:
            if isinstance(answer, KeyTaken):
                return IdempotencyKeyReusedError(answer.job)
        # Checked only now: a batch that an earlier request has stored is returned, whatever its size.
        at_once = [job for job in jobs if job.schedule is None or not job.schedule.may_wait]
        executions = max(sum(job.admitted.total for job in at_once), *(job.admitted.total for job in jobs))
        exceeds = exceeds_limit(
            len(at_once), executions, first.allowance, self._live.current.limits.queue_size
        )
        if exceeds is not None:
            return BatchExceedsLimitError(exceeds, first.tier)
        reached = {index: answer for index, answer in enumerate(answers) if isinstance(answer, LimitReached)}
        return LimitReachedError(reached, first.tier, await self._turn_s(first), batch=first.batch)

    async def _turn_s(self, job: NewJob) -> float:
        """About how long until one of the user's jobs has ended: the wait in its lane, and a run."""
        (found,) = await self._estimator.of_new([job], accepted=False)
        model, _ = first_target(job.admitted.spec)
        configured = self._live.current.models.get(model)
        return (found.wait_s or 0.0) + (0.0 if configured is None else configured.expected_run_s)


def _allowances(config: BeaconConfig) -> dict[str, Allowance | None]:
    return {tier: Allowance.of(settings) for tier, settings in config.tiers.items()}


def _hash(submissions: Sequence[Submission]) -> bytes:
    """Equal for requests that mean the same, whatever their whitespace and order of fields."""
    documents = [submission.model_dump(mode="json") for submission in submissions]
    return sha256(orjson.dumps(documents, option=orjson.OPT_SORT_KEYS)).digest()
