"""Submission, the hot path: one parse, one check, one shared commit, one answer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

import orjson
from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.types import Receive, Scope

from beacon_config import BeaconConfig
from beacon_contracts import accounts
from beacon_contracts.ids import JobId, UserId, encode_job_id
from beacon_contracts.jobs import BatchSubmission, job_submission
from beacon_contracts.problem import FieldProblem
from beacon_contracts.tiers import JobClass, Tier
from beacon_http.problems import HttpProblemError
from beacon_http.replies import Reply
from beacon_runner.application.priorities import Priorities
from beacon_runner.application.wait_estimator import WaitEstimator
from beacon_runner.domain.admission import Admission, RefusedJobError, Submission
from beacon_runner.domain.job_ids import new_job_id, new_job_ids
from beacon_runner.domain.lanes import lane_at_submission
from beacon_runner.domain.plan import places
from beacon_runner.domain.quotas import Allowance, LimitReached, out_of_reach
from beacon_runner.domain.submissions import Answer, KeyTaken, NewJob, Submitted
from beacon_runner.http.accepted_response import receipt, receipts
from beacon_runner.http.auth import ApiKeyCache
from beacon_runner.http.limit_errors import refused, to_be_split
from beacon_runner.http.views import links_of
from beacon_runner.ports.submissions import SubmissionStore
from beacon_runner.postgres.users import Principal

_LONGEST_KEY = 200
_BATCH: TypeAdapter[BatchSubmission] = TypeAdapter(BatchSubmission)


@dataclass(frozen=True, slots=True)
class Sender:
    """Who submits, and what follows from it: the same for all jobs of a request."""

    user: UserId
    tier: Tier
    job_class: JobClass
    lane: str
    allowance: Allowance | None
    longest_s: float | None
    batch: bool = False


@dataclass(frozen=True, slots=True)
class SubmissionService:
    config: BeaconConfig
    admission: Admission
    keys: ApiKeyCache
    intake: SubmissionStore
    outlook: WaitEstimator
    priorities: Priorities

    async def submit(self, scope: Scope, receive: Receive) -> Reply:
        """`POST /api/v1/jobs`."""
        principal = await self.keys.require(scope, accounts.Scope.USER)
        body = await Request(scope, receive).body()
        return await self.take(principal, job_submission.validate_json(body), idempotency_key(scope))

    async def take(self, principal: Principal, submission: Submission, key: str | None) -> Reply:
        """Accept one job that has the right form."""
        self.outlook.begin()
        (job,) = await self._classed([self._admit(self._sender(principal), submission, new_job_id())])
        if key is not None:
            job = replace(job, idempotency_key=key, request_hash=_hash([submission]))
        (accepted,) = await self._checked([job], await self.intake.submit([job]))
        location = links_of(encode_job_id(accepted.id))["self"].encode()
        body = await receipt(self.outlook, job, accepted)
        return Reply(202 if accepted.created else 200, body, ((b"location", location),))

    async def submit_batch(self, scope: Scope, receive: Receive) -> Reply:
        """`POST /api/v1/jobs/batch`."""
        principal = await self.keys.require(scope, accounts.Scope.USER)
        body = await Request(scope, receive).body()
        submissions = _BATCH.validate_json(body).jobs
        self._check_size(len(submissions))
        key = idempotency_key(scope)
        self.outlook.begin()
        jobs = await self._classed(self._admit_all(self._sender(principal, batch=True), submissions))
        if key is None:
            answers = await self.intake.submit(jobs)
        else:
            answers = await self.intake.submit_batch(jobs, key, _hash(submissions))
        accepted = await self._checked(jobs, answers)
        documents = await receipts(self.outlook, jobs, accepted)
        return Reply(202 if accepted[0].created else 200, documents)

    def _check_size(self, size: int) -> None:
        most = self.config.limits.batch_jobs
        if size > most:
            message = f"a batch may have {most} jobs, this one has {size}"
            raise RefusedJobError([FieldProblem(field="jobs", message=message, code="too_many")])

    def _sender(self, principal: Principal, *, batch: bool = False) -> Sender:
        tier = self.config.tiers[principal.tier]
        return Sender(
            principal.user,
            principal.tier,
            tier.job_class,
            lane_at_submission(self.config.lanes, principal.user),
            Allowance.of(tier),
            tier.max_duration_s,
            batch,
        )

    async def _classed(self, jobs: Sequence[NewJob]) -> Sequence[NewJob]:
        """In the class that the priority service gives their user; it is asked only for good ones."""
        first = jobs[0]
        job_class = await self.priorities.class_of(first.user, first.job_class)
        return jobs if job_class is first.job_class else [replace(job, job_class=job_class) for job in jobs]

    def _admit_all(self, sender: Sender, submissions: Sequence[Submission]) -> list[NewJob]:
        """All of them, or an error that names what is wrong with each."""
        jobs: list[NewJob] = []
        problems: list[FieldProblem] = []
        ids = new_job_ids(len(submissions))
        for number, submission in enumerate(submissions):
            try:
                jobs.append(self._admit(sender, submission, ids[number]))
            except RefusedJobError as error:
                problems += [_in_batch(problem, number) for problem in error.problems]
        if problems:
            raise RefusedJobError(problems)
        return jobs

    def _admit(self, sender: Sender, submission: Submission, job_id: JobId) -> NewJob:
        """In normal form, and no longer than the tier may ask for."""
        admitted = self.admission.admit(submission, job_id.int)
        duration_s, longest_s = admitted.duration_s, sender.longest_s
        if duration_s is not None and longest_s is not None and duration_s > longest_s:
            message = f"tier {sender.tier} may ask for at most {longest_s:g} seconds"
            raise RefusedJobError([FieldProblem(field="duration", message=message, code="duration_too_long")])
        return NewJob(
            job_id,
            sender.user,
            sender.tier,
            sender.job_class,
            sender.lane,
            admitted,
            sender.batch,
            sender.allowance,
        )

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
            raise await self._refusal(jobs, met)
        return accepted

    async def _refusal(self, jobs: Sequence[NewJob], met: Mapping[int, LimitReached]) -> HttpProblemError:
        """Made of what was met: a batch that an earlier request has stored is found, whatever its size."""
        first = jobs[0]
        never = out_of_reach(len(jobs), first.allowance, self.config.limits.queue_size)
        if never is not None:
            return to_be_split(never, first.tier)
        return refused(met, first.tier, await self._turn_s(first), batch=first.batch)

    async def _turn_s(self, job: NewJob) -> float:
        """About how long until one of the user's jobs is done: the wait of its lane, and a run."""
        position = await self.outlook.newcomer(job.job_class, job.lane)
        waits = self.outlook.wait_s(job.admitted.spec, position) or 0.0
        return waits + self.config.models[next(places(job.admitted.spec)).model].expected_run_s


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
    earlier = encode_job_id(answer.job)
    detail = f"this Idempotency-Key was used for {earlier}, which was asked for differently"
    return HttpProblemError(409, "idempotency_key_reused", detail, job_id=earlier)


def _hash(submissions: Sequence[Submission]) -> bytes:
    """The same for requests that mean the same, whatever their spacing and order of fields."""
    documents = [submission.model_dump(mode="json") for submission in submissions]
    return sha256(orjson.dumps(documents, option=orjson.OPT_SORT_KEYS)).digest()


def _in_batch(problem: FieldProblem, number: int) -> FieldProblem:
    return problem.model_copy(update={"field": f"jobs[{number}].{problem.field}"})
