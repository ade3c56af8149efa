"""When a job may start and when it expires, as it was submitted."""

from collections.abc import Iterator
from datetime import datetime

from beacon_contracts.jobs import JobOptions, OnLimit
from beacon_contracts.problem import FieldProblem
from beacon_runner.domain.errors import InvalidFieldsError
from beacon_runner.domain.jobs.submissions import Schedule


def has_past_time(options: JobOptions, now: datetime) -> bool:
    return any(moment is not None and moment <= now for moment in (options.not_before, options.expires_at))


def schedule_of(options: JobOptions, now: datetime | None) -> Schedule | None:
    """None for a job that starts at once, or is refused.

    Raises unless times are in the future, and the job starts before it expires. `now` None: they may be past.
    """
    may_wait = options.on_limit is OnLimit.WAIT
    if options.not_before is None and options.expires_at is None and not may_wait:
        return None
    if problems := list(_problems(options, now)):
        raise InvalidFieldsError(problems)
    return Schedule(options.not_before, options.expires_at, may_wait)


def _problems(options: JobOptions, now: datetime | None) -> Iterator[FieldProblem]:
    start, end = options.not_before, options.expires_at
    for field, moment in (("not_before", start), ("expires_at", end)):
        if moment is not None and now is not None and moment <= now:
            yield FieldProblem(field=field, message="is in the past", code="past")
    if start is not None and end is not None and end <= start:
        yield FieldProblem(field="expires_at", message="must be after not_before", code="invalid")
