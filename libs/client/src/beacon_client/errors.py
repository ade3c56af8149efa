"""Exceptions of the client. All derive from `BeaconError`."""

from beacon_client.advice import advice_for
from beacon_contracts.jobs import JobView
from beacon_contracts.problem import Problem

JOB_RESULT = 200  # status of errors about a job: the request itself succeeded


class BeaconError(Exception):
    """The runner refused a request or did not respond. `code` is stable; `what_to_do` is advice."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(f"{problem.detail or problem.title} ({problem.code})")
        self.problem = problem

    @property
    def status(self) -> int:
        """HTTP status; 0 without a response."""
        return self.problem.status

    @property
    def code(self) -> str:
        """The stable error code, as listed in the API documentation."""
        return self.problem.code

    @property
    def detail(self) -> str:
        """What is wrong."""
        return self.problem.detail

    @property
    def retry_after_s(self) -> float | None:
        """Seconds after which the server accepts a retry, if it gave them."""
        return self.problem.retry_after_s

    @property
    def what_to_do(self) -> str:
        """One sentence of advice; empty if there is none."""
        return advice_for(self.problem)


class BeaconUnreachable(BeaconError):  # noqa: N818
    """No response. `sent` is false when the request cannot have reached the server."""

    def __init__(self, url: str, reason: str, *, sent: bool) -> None:
        super().__init__(
            Problem(
                title="Unreachable", status=0, code="unreachable", detail=f"{url} does not answer: {reason}"
            )
        )
        self.sent = sent


class JobFailedError(BeaconError):
    """The job ended without completing: failed, partial or cancelled. `job` has its results."""

    def __init__(self, job: JobView) -> None:
        reason = f": {job.failure.message}" if job.failure else ""
        code = job.failure.code if job.failure else f"job_{job.status}"
        detail = f"{job.job_id} is {job.status}{reason}"
        super().__init__(Problem(title="Job failed", status=JOB_RESULT, code=code, detail=detail))
        self.job = job


class WaitTimeoutError(BeaconError, TimeoutError):
    """The job did not end within the given time; it continues to run."""

    def __init__(self, job_id: str, timeout_s: float) -> None:
        detail = f"{job_id} did not end within {timeout_s:g} s"
        super().__init__(Problem(title="Timeout", status=JOB_RESULT, code="wait_timeout", detail=detail))
        self.job_id = job_id
