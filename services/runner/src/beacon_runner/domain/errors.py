"""Errors of the runner, for every layer. They are independent of HTTP and of drivers."""

from collections.abc import Sequence

from beacon_contracts.failures import Failure
from beacon_contracts.ids import JobId, encode_job_id
from beacon_contracts.jobs import JobState
from beacon_contracts.problem import FieldProblem
from beacon_contracts.tiers import Tier
from beacon_runner.domain.limits.job_quota import ExceedsLimit, LimitReached


class StoreUnavailableError(Exception):
    """Postgres does not answer now; the statement may or may not have taken effect."""


class StoreOutdatedError(StoreUnavailableError):
    """The database schema is older than this code: everything waits for the migration."""


class QueueUnavailableError(Exception):
    """Redis does not answer now."""


class InvalidFieldsError(Exception):
    """The request cannot be accepted; `problems` names each field and what is wrong with it."""

    def __init__(self, problems: Sequence[FieldProblem]) -> None:
        super().__init__("; ".join(f"{problem.field}: {problem.message}" for problem in problems))
        self.problems = tuple(problems)

    @classmethod
    def of(cls, field: str, message: str, code: str = "invalid") -> "InvalidFieldsError":
        return cls([FieldProblem(field=field, message=message, code=code)])


class JobNotFoundError(Exception):
    """There is no such job, or the user may not see it."""


class OperationNotFoundError(Exception):
    """There is no such operation, or the user may not see it."""


class OwnUserError(Exception):
    """An administrator cannot delete the user of its own key."""


class ExecutionNotFoundError(Exception):
    """The job has no execution of that number."""


class JobStateError(Exception):
    """The job's state does not allow the command."""

    def __init__(self, state: JobState, message: str) -> None:
        super().__init__(message)
        self.state = state


class JobChangedError(Exception):
    """The job changed between every read and the write that depended on it."""


class NotRetryableError(Exception):
    """The failure is permanent: another attempt would fail in the same way."""

    def __init__(self, failure: Failure | None) -> None:
        super().__init__(failure.message if failure else "no failure that can be retried is recorded")
        self.failure = failure


class RetriesExhaustedError(Exception):
    """The execution has used all retries that a user may ask for."""

    def __init__(self, retry_attempt: int, max_attempts: int) -> None:
        super().__init__(f"this execution was retried {retry_attempt} of {max_attempts} times")
        self.retry_attempt = retry_attempt
        self.max_attempts = max_attempts


class AlreadySkippedError(Exception):
    """A skip was already paid for this job."""


class InsufficientCreditError(Exception):
    """The price of a skip is more than the user's credit."""

    def __init__(self, price: int, credit: int) -> None:
        super().__init__(f"a skip costs {price}; your credit is {credit}")
        self.price = price
        self.credit = credit


class CreditOutOfRangeError(Exception):
    """The balance would fall below zero or exceed what an account can hold."""


class UserNotFoundError(Exception):
    """There is no such user."""


class UserNameTakenError(Exception):
    """Another user has that name."""


class ApiKeyNotFoundError(Exception):
    """The user has no such key."""


class ApiKeyTakenError(Exception):
    """The same key exists already."""


class UnknownFileError(Exception):
    """There is no such file, or the user may not see it."""


class FileInUseError(Exception):
    """A live job made the file or uses it."""

    def __init__(self, job: JobId) -> None:
        super().__init__(f"{encode_job_id(job)} still needs this file; cancel the job or wait for its end")
        self.job = job


class StorageLimitError(Exception):
    """The user's files would exceed the limit of the tier."""

    def __init__(self, limit: int, used: int) -> None:
        super().__init__(f"your files use {used} of {limit} bytes; delete some")
        self.limit = limit
        self.used = used


class UploadTooLargeError(Exception):
    """The file is larger than one file may be."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(f"the file is larger than {max_bytes} bytes, the limit")


class FileStoreUnavailableError(Exception):
    """The store of the files' bytes does not answer now."""


class UnknownWebhookError(Exception):
    """There is no such endpoint, or the user may not see it."""


class WebhookLockedError(Exception):
    """An administrator has disabled the endpoint: its user can only read it."""


class UnknownDeliveryError(Exception):
    """The endpoint has no such delivery."""


class TooManyWebhooksError(Exception):
    """The user has as many endpoints as a user may have."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"a user may have {limit} webhooks; change or delete one")


class IdempotencyKeyReusedError(Exception):
    """The idempotency key belongs to a different request, which created `job`."""

    def __init__(self, job: JobId) -> None:
        super().__init__("the idempotency key was used for a different request")
        self.job = job


class LimitReachedError(Exception):
    """Jobs of a submission met limits. `reached` has the limit by the job's index in the request."""

    def __init__(
        self, reached: dict[int, LimitReached], tier: Tier, retry_after_s: float, *, batch: bool
    ) -> None:
        super().__init__("a limit is reached")
        self.reached = reached
        self.tier = tier
        self.retry_after_s = retry_after_s
        self.batch = batch


class BatchExceedsLimitError(Exception):
    """The batch is larger than a limit ever allows: waiting cannot help."""

    def __init__(self, exceeds: ExceedsLimit, tier: Tier) -> None:
        super().__init__("the batch is larger than a limit allows")
        self.exceeds = exceeds
        self.tier = tier
