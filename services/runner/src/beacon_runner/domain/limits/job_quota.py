"""The limits of tiers and of the queue: which candidates are admitted, decided from counts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from beacon_config.tiers import TierConfig
from beacon_contracts.ids import UserId

HOUR_S = 3600.0
DAY_S = 86_400.0


class QuotaLimit(StrEnum):
    PENDING_JOBS = "pending_jobs"
    JOBS_PER_HOUR = "jobs_per_hour"
    IN_FLIGHT_EXECUTIONS = "in_flight_executions"
    GPU_SECONDS_PER_DAY = "gpu_seconds_per_day"
    QUEUE_SIZE = "queue_size"
    STORAGE_BYTES = "storage_bytes"


@dataclass(frozen=True, slots=True)
class Allowance:
    """The limits of a tier for each of its users; None means no limit."""

    pending_jobs: int | None = None
    jobs_per_hour: int | None = None
    storage_bytes: int | None = None
    in_flight_executions: int | None = None
    gpu_seconds_per_day: int | None = None

    @classmethod
    def of(cls, tier: TierConfig) -> "Allowance | None":
        """None when nothing is limited: the jobs of such users need not be counted."""
        limits = (
            tier.pending_jobs,
            tier.jobs_per_hour,
            tier.storage_bytes,
            tier.in_flight_executions,
            tier.gpu_seconds_per_day,
        )
        return None if all(limit is None for limit in limits) else cls(*limits)


@dataclass(frozen=True, slots=True)
class Use:
    """A user's live jobs, jobs of the last hour and bytes of files.

    `hour_frees_in_s` is set when the hour is used up.

    `waiting`: jobs of the user wait for a limit. These are not counted.
    `in_flight`: executions of live jobs that have not ended. `day_ends_in_s`: until midnight, UTC.
    """

    pending: int = 0
    this_hour: int = 0
    hour_frees_in_s: float | None = None
    waiting: bool = False
    stored_bytes: int = 0
    in_flight: int = 0
    gpu_seconds_today: float = 0.0
    day_ends_in_s: float = DAY_S


@dataclass(frozen=True, slots=True)
class LimitReached:
    """Why a job was refused; `frees_in_s` is None when it cannot be computed."""

    limit: QuotaLimit
    allowed: int
    used: int
    frees_in_s: float | None = None


@dataclass(frozen=True, slots=True)
class MustWait:
    """A job is accepted and starts when the limits of its user allow it."""


@dataclass(frozen=True, slots=True)
class ExceedsLimit:
    """More jobs or executions in one request than a limit ever allows: waiting cannot help."""

    limit: QuotaLimit
    allowed: int
    requested: int


@dataclass(frozen=True, slots=True)
class QuotaCandidate:
    """A job to be admitted; those of one `group` are stored together or not at all.

    `may_wait`: for the limits of its user, but not for room in the queue.
    """

    user: UserId
    allowance: Allowance | None
    group: object
    may_wait: bool = False
    executions: int = 1


class Demand(NamedTuple):
    """Jobs that start, and their executions."""

    jobs: int = 0
    executions: int = 0

    def plus(self, executions: int) -> "Demand":
        """With another job of so many executions."""
        return Demand(self.jobs + 1, self.executions + executions)


QuotaVerdict = LimitReached | MustWait | None


def admit(
    candidates: Sequence[QuotaCandidate], used: Mapping[UserId, Use], room: int | None, queue_size: int
) -> list[QuotaVerdict]:
    """For each candidate the limit that it reaches, or None; in order. `room` None: the queue has room."""
    usage = _Usage(used, room, queue_size)
    answers: list[QuotaVerdict] = [None] * len(candidates)
    for indexes in _groups(candidates):
        verdicts: list[QuotaVerdict] = []
        starting = Demand()
        for index in indexes:
            verdict = usage.check(candidates[index], len(verdicts), starting)
            if verdict is None:
                starting = starting.plus(candidates[index].executions)
            verdicts.append(verdict)
        refused = [verdict for verdict in verdicts if isinstance(verdict, LimitReached)]
        for index, verdict in zip(indexes, verdicts, strict=True):
            # A job that would have been admitted alone is refused with its group.
            answers[index] = refused[0] if refused and not isinstance(verdict, LimitReached) else verdict
        if not refused:
            usage.add([candidates[index] for index in indexes], verdicts)
    return answers


def admissible(allowance: Allowance | None, use: Use, waiting: Sequence[int]) -> int:
    """How many of the jobs that wait for the limits of their user may start now, in their order.

    `waiting`: the executions of each.
    """
    starting = Demand()
    for executions in waiting:
        if allowance is not None and _reached(allowance, use, Demand(), starting, executions) is not None:
            break
        starting = starting.plus(executions)
    return starting.jobs


def exceeds_limit(
    requested: int, executions: int, allowance: Allowance | None, queue_size: int
) -> ExceedsLimit | None:
    """The smallest limit, if so many jobs or executions exceed it even when nothing of it is used."""
    limits = allowance or Allowance()
    if limits.in_flight_executions is not None and executions > limits.in_flight_executions:
        return ExceedsLimit(QuotaLimit.IN_FLIGHT_EXECUTIONS, limits.in_flight_executions, executions)
    bounds = {
        QuotaLimit.PENDING_JOBS: limits.pending_jobs,
        QuotaLimit.JOBS_PER_HOUR: limits.jobs_per_hour,
        QuotaLimit.QUEUE_SIZE: queue_size,
    }
    known = {limit: allowed for limit, allowed in bounds.items() if allowed is not None}
    smallest = min(known, key=known.__getitem__)
    return ExceedsLimit(smallest, known[smallest], requested) if requested > known[smallest] else None


def _groups(candidates: Sequence[QuotaCandidate]) -> Iterable[list[int]]:
    groups: dict[object, list[int]] = {}
    for index, candidate in enumerate(candidates):
        groups.setdefault(candidate.group, []).append(index)
    return groups.values()


class _Usage:
    """The use of quotas while candidates are admitted one after another."""

    def __init__(self, used: Mapping[UserId, Use], room: int | None, queue_size: int) -> None:
        self._used = used
        self._room = room
        self._queue_size = queue_size
        self._added: dict[UserId, Demand] = {}
        self._waiting: set[UserId] = set()
        self._total = 0

    def check(self, candidate: QuotaCandidate, before: int, starting: Demand) -> QuotaVerdict:
        """The limit that it reaches after `before` others of its group, of which `starting` do not wait."""
        if self._room is not None and self._total + before >= self._room:
            return LimitReached(
                QuotaLimit.QUEUE_SIZE, self._queue_size, self._queue_size - self._room + self._total
            )
        if candidate.allowance is None:
            return None
        use = self._used.get(candidate.user, Use())
        most = candidate.allowance.in_flight_executions
        if most is not None and candidate.executions > most:  # no wait would admit it
            return LimitReached(QuotaLimit.IN_FLIGHT_EXECUTIONS, most, use.in_flight)
        if candidate.may_wait and (use.waiting or candidate.user in self._waiting):
            return MustWait()  # jobs that wait start in the order of their arrival
        added = self._added.get(candidate.user, Demand())
        reached = _reached(candidate.allowance, use, added, starting, candidate.executions)
        return MustWait() if reached is not None and candidate.may_wait else reached

    def add(self, candidates: Sequence[QuotaCandidate], verdicts: Sequence[QuotaVerdict]) -> None:
        for candidate, verdict in zip(candidates, verdicts, strict=True):
            self._total += 1
            added = self._added.get(candidate.user, Demand())
            if verdict is None:
                self._added[candidate.user] = added.plus(candidate.executions)
            else:
                self._waiting.add(candidate.user)


def _reached(
    allowance: Allowance, use: Use, added: Demand, before: Demand, executions: int
) -> LimitReached | None:
    """The limit that a job of so many executions reaches.

    Those of its own group `before` it count, but are not reported as used: they are not stored yet.
    """
    per_hour, this_hour = allowance.jobs_per_hour, use.this_hour + added.jobs
    if per_hour is not None and this_hour + before.jobs >= per_hour:
        frees_in_s = use.hour_frees_in_s if use.hour_frees_in_s is not None else HOUR_S
        return LimitReached(QuotaLimit.JOBS_PER_HOUR, per_hour, this_hour, frees_in_s)
    if allowance.storage_bytes is not None and use.stored_bytes >= allowance.storage_bytes:
        return LimitReached(QuotaLimit.STORAGE_BYTES, allowance.storage_bytes, use.stored_bytes)
    max_pending, pending = allowance.pending_jobs, use.pending + added.jobs
    if max_pending is not None and pending + before.jobs >= max_pending:
        return LimitReached(QuotaLimit.PENDING_JOBS, max_pending, pending)
    max_in_flight, in_flight = allowance.in_flight_executions, use.in_flight + added.executions
    others = in_flight + before.executions
    # A job that waits may be larger than a limit that was lowered since: it starts alone.
    if max_in_flight is not None and others > 0 and others + executions > max_in_flight:
        return LimitReached(QuotaLimit.IN_FLIGHT_EXECUTIONS, max_in_flight, in_flight)
    per_day, today = allowance.gpu_seconds_per_day, use.gpu_seconds_today
    if per_day is not None and today >= per_day:
        return LimitReached(QuotaLimit.GPU_SECONDS_PER_DAY, per_day, round(today), use.day_ends_in_s)
    return None
