"""Submission, the hot path: one parse, one check, one shared commit, one answer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any
from uuid import UUID

import orjson
from pydantic import TypeAdapter
from starlette.types import Receive, Scope

from beacon_config import BeaconConfig
from beacon_contracts import accounts
from beacon_contracts.ids import JobId, new_uuid, show_job
from beacon_contracts.jobs import BatchSubmission, JobState, job_submission
from beacon_contracts.problem import FieldProblem
from beacon_contracts.tiers import JobClass, Tier
from beacon_runner.api.auth import KeyRing
from beacon_runner.api.outlook import Outlook
from beacon_runner.api.priorities import Priorities
from beacon_runner.api.refusals import refused
from beacon_runner.api.views import links_of
from beacon_runner.domain.admission import Admission, AdmittedJob, RefusedJobError, Submission
from beacon_runner.domain.allowances import Allowance, LimitReached
from beacon_runner.domain.lanes import lane_at_submission
from beacon_runner.domain.plan import places
from beacon_runner.store.intake import Intake
from beacon_runner.store.submissions import Answer, KeyTaken, NewJob, Submitted
from beacon_runner.store.users import Principal
from beacon_web.bodies import read_body
from beacon_web.problems import HttpProblemError
from beacon_web.replies import Reply

_LONGEST_KEY = 200

# What was worked out for one request, by model, region and position: the jobs of a batch share it.
Waits = dict[tuple[str, str, int | None], float | None]
_BATCH: TypeAdapter[BatchSubmission] = TypeAdapter(BatchSubmission)


@dataclass(frozen=True, slots=True)
class SubmissionDesk:
    config: BeaconConfig
    admission: Admission
    keys: KeyRing
    intake: Intake
    outlook: Outlook
    priorities: Priorities

    async def submit(self, scope: Scope, receive: Receive) -> Reply:
        """`POST /api/v1/jobs`."""
        principal = await self.keys.require(scope, accounts.Scope.USER)
        body = await read_body(scope, receive, self.config.limits.body_bytes)
        submission = job_submission.validate_json(body)
        return await self.take(principal, submission, idempotency_key(scope))

    async def take(self, principal: Principal, submission: Submission, key: str | None) -> Reply:
        """Accept one job that has the right form."""
        self.outlook.begin()
        job_id = new_uuid()
        admitted = self._admit(submission, job_id, principal.tier)
        job = self._new_job(job_id, principal, admitted, await self._class_of(principal))
        if key is not None:
            job = replace(job, idempotency_key=key, request_hash=_hash([submission]))
        (accepted,) = await self._checked([job], await self.intake.submit([job]))
        document = await self._document(job, accepted, {})
        location = links_of(show_job(accepted.id))["self"].encode()
        return Reply(202 if accepted.created else 200, orjson.dumps(document), ((b"location", location),))

    async def submit_batch(self, scope: Scope, receive: Receive) -> Reply:
        """`POST /api/v1/jobs/batch`."""
        principal = await self.keys.require(scope, accounts.Scope.USER)
        body = await read_body(scope, receive, self.config.limits.body_bytes)
        submissions = _BATCH.validate_json(body).jobs
        self._check_size(len(submissions))
        self.outlook.begin()
        jobs = self._admit_all(principal, submissions, await self._class_of(principal))
        key = idempotency_key(scope)
        if key is None:
            answers = await self.intake.submit(jobs)
        else:
            answers = await self.intake.submit_batch(jobs, key, _hash(submissions))
        accepted = await self._checked(jobs, answers)
        waits: Waits = {}
        documents = [await self._document(job, one, waits) for job, one in zip(jobs, accepted, strict=True)]
        return Reply(202 if accepted[0].created else 200, orjson.dumps({"jobs": documents}))

    def _check_size(self, size: int) -> None:
        most = self.config.limits.batch_jobs
        if size > most:
            message = f"a batch may have {most} jobs, this one has {size}"
            raise RefusedJobError([FieldProblem(field="jobs", message=message, code="too_many")])

    async def _class_of(self, principal: Principal) -> JobClass:
        return await self.priorities.class_of(principal.user, self.config.tiers[principal.tier].job_class)

    def _admit_all(
        self, principal: Principal, submissions: Sequence[Submission], job_class: JobClass
    ) -> list[NewJob]:
        """All of them, or an error that names what is wrong with each."""
        jobs: list[NewJob] = []
        problems: list[FieldProblem] = []
        batch = new_uuid().hex
        for number, submission in enumerate(submissions):
            job_id = new_uuid()
            try:
                admitted = self._admit(submission, job_id, principal.tier)
            except RefusedJobError as error:
                problems += [_in_batch(problem, number) for problem in error.problems]
            else:
                jobs.append(self._new_job(job_id, principal, admitted, job_class, batch))
        if problems:
            raise RefusedJobError(problems)
        return jobs

    def _admit(self, submission: Submission, job_id: UUID, tier: Tier) -> AdmittedJob:
        """In normal form, and no longer than the tier may ask for."""
        admitted = self.admission.admit(submission, job_id.int)
        longest = self.config.tiers[tier].max_duration_s
        if longest is not None and admitted.duration_s is not None and admitted.duration_s > longest:
            message = f"tier {tier} may ask for at most {longest:g} seconds"
            raise RefusedJobError([FieldProblem(field="duration", message=message, code="duration_too_long")])
        return admitted

    async def _checked(self, jobs: Sequence[NewJob], answers: Sequence[Answer]) -> list[Submitted]:
        """What was accepted; the refusal, when any was not."""
        accepted: list[Submitted] = []
        met: dict[int, LimitReached] = {}
        for place, answer in enumerate(answers):
            if isinstance(answer, KeyTaken):
                raise _key_reused(answer)
            if isinstance(answer, LimitReached):
                met[place] = answer
            else:
                accepted.append(answer)
        if met:
            first = jobs[0]
            raise refused(met, first.tier, await self._turn_s(first), batch=first.batch is not None)
        return accepted

    async def _turn_s(self, job: NewJob) -> float:
        """About how long until one of the user's jobs is done: the wait of its lane, and a run."""
        position = await self.outlook.newcomer(job.job_class, job.lane)
        waits = self.outlook.wait_s(job.admitted.spec, position) or 0.0
        return waits + self.config.models[next(places(job.admitted.spec)).model].expected_run_s

    def _new_job(
        self,
        job_id: UUID,
        principal: Principal,
        admitted: AdmittedJob,
        job_class: JobClass,
        batch: str | None = None,
    ) -> NewJob:
        return NewJob(
            id=JobId(job_id),
            user=principal.user,
            tier=principal.tier,
            job_class=job_class,
            lane=lane_at_submission(self.config.lanes, principal.user),
            admitted=admitted,
            batch=batch,
            allowance=Allowance.of(self.config.tiers[principal.tier]),
        )

    async def _document(self, job: NewJob, accepted: Submitted, waits: Waits) -> dict[str, object]:
        """The answer as a `JobAccepted`, without making one: this is the hot path."""
        job_id = show_job(accepted.id)
        queued = accepted.state is JobState.QUEUED
        position = await self.outlook.newcomer(accepted.job_class, job.lane) if queued else None
        return {
            "job_id": job_id,
            "status": accepted.state,
            "tier": accepted.tier,
            "priority": accepted.job_class,
            "position": position,
            "estimated_wait_s": self._wait_s(job.admitted.spec, position, waits),
            "links": links_of(job_id),
        }

    def _wait_s(self, spec: Mapping[str, Any], position: int | None, waits: Waits) -> float | None:
        first = next(places(spec))
        key = (first.model, first.region, position)
        if key not in waits:
            waits[key] = self.outlook.wait_s(spec, position)
        return waits[key]


def idempotency_key(scope: Scope) -> str | None:
    for name, value in scope["headers"]:
        if name == b"idempotency-key":
            key = str(value, "latin-1")
            if not 0 < len(key) <= _LONGEST_KEY or not key.isascii() or not key.isprintable():
                message = f"must be 1 to {_LONGEST_KEY} printable characters"
                raise RefusedJobError(
                    [FieldProblem(field="Idempotency-Key", message=message, code="invalid")]
                )
            return key
    return None


def _key_reused(answer: KeyTaken) -> HttpProblemError:
    earlier = show_job(answer.job)
    detail = f"this Idempotency-Key was used for {earlier}, which was asked for differently"
    return HttpProblemError(409, "idempotency_key_reused", detail, job_id=earlier)


def _hash(submissions: Sequence[Submission]) -> bytes:
    """The same for requests that mean the same, whatever their spacing and order of fields."""
    documents = [submission.model_dump(mode="json") for submission in submissions]
    return sha256(orjson.dumps(documents, option=orjson.OPT_SORT_KEYS)).digest()


def _in_batch(problem: FieldProblem, number: int) -> FieldProblem:
    return problem.model_copy(update={"field": f"jobs[{number}].{problem.field}"})
