"""The use of GPUs: what is asked of the hourly sums, and what a run adds to them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from beacon_contracts.ids import KeyId, UserId
from beacon_contracts.usage import UsageGroup
from beacon_runner.domain.errors import InvalidFieldsError

MAX_PERIOD = timedelta(days=400)
MAX_ROWS = 10_000
DEFAULT_PERIOD = timedelta(days=30)
HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class UsageQuery:
    """Full hours from `start` up to `end`. `user` None: all users."""

    user: UserId | None
    start: datetime
    end: datetime
    groups: tuple[UsageGroup, ...] = ()


@dataclass(frozen=True, slots=True)
class InteractiveUsage:
    """A run of `/v1`; runs of jobs are recorded with their results."""

    user: UserId
    key: KeyId
    model: str
    region: str
    queued_s: float
    load_s: float
    run_s: float
    tokens_in: int
    tokens_out: int
    failed: bool


class UsageSum(NamedTuple):
    """A row of the answer; the parts that it is not grouped by are None."""

    period: datetime | None
    user: UserId | None
    key: KeyId | None
    model: str | None
    region: str | None
    tag: str | None
    runs: int
    failed: int
    queued_s: float
    load_s: float
    run_s: float
    tokens_in: int
    tokens_out: int
    output_bytes: int


class UsageToday(NamedTuple):
    """Since midnight, UTC."""

    gpu_s: float
    day_ends_in_s: float


class RolledUp(NamedTuple):
    """What one roll-up has added for a model in a region, and from how many records."""

    model: str
    region: str
    runs: int
    failed: int
    gpu_s: float
    tokens_in: int
    tokens_out: int
    records: int


def usage_query(
    user: UserId | None,
    groups: Sequence[UsageGroup],
    start: datetime | None,
    end: datetime | None,
    now: datetime,
) -> UsageQuery:
    """Without bounds, the last 30 days. Hours are the smallest unit: the period is extended to full ones.

    Times are in UTC.
    """
    last = _next_hour(now if end is None else end)
    first = last - DEFAULT_PERIOD if start is None else _hour(start)
    if first >= last:
        raise InvalidFieldsError.of("from", "must be before the end of the period")
    if last - first > MAX_PERIOD:
        raise InvalidFieldsError.of("from", f"a period may have {MAX_PERIOD.days} days at most")
    if UsageGroup.HOUR in groups and UsageGroup.DAY in groups:
        raise InvalidFieldsError.of("group_by", "may have hour or day, not both")
    return UsageQuery(user, first, last, tuple(dict.fromkeys(groups)))


def tokens_of(usage: Mapping[str, int] | None) -> tuple[int, int]:
    """Tokens of the prompt and of the completion, as an OpenAI-compatible backend counts them."""
    counts = usage or {}
    return counts.get("prompt_tokens", 0), counts.get("completion_tokens", 0)


def _hour(moment: datetime) -> datetime:
    return moment.replace(minute=0, second=0, microsecond=0)


def _next_hour(moment: datetime) -> datetime:
    return moment if moment == _hour(moment) else _hour(moment) + HOUR
