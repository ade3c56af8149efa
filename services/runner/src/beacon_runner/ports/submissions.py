"""Storing new jobs within the limits of their users."""

from collections.abc import Sequence
from typing import Protocol

from beacon_contracts.ids import UserId
from beacon_runner.domain.jobs.submissions import Answer, NewJob
from beacon_runner.domain.limits.job_quota import Allowance, Use


class SubmissionStore(Protocol):
    async def submit(self, jobs: Sequence[NewJob]) -> Sequence[Answer]:
        """Store one user's jobs; returns after the commit, with an answer for each job."""
        ...

    async def submit_batch(self, jobs: Sequence[NewJob], key: str, request_hash: bytes) -> Sequence[Answer]:
        """Store a batch under one idempotency key: all of its jobs, or none."""
        ...

    async def is_key_used(self, user: UserId, key: str) -> bool:
        """Whether a job holds this idempotency key."""
        ...

    async def use_of(self, user: UserId, allowance: Allowance | None) -> Use:
        """The user's live jobs and jobs of the last hour."""
        ...
