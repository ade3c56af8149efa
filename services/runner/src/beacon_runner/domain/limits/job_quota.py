"""The limits of tiers and of the queue: which candidates are admitted, decided from counts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from beacon_config.tiers import TierConfig
from beacon_contracts.ids import UserId

HOUR_S = 3600.0


class QuotaLimit(StrEnum):
    PENDING_JOBS = "pending_jobs"
    JOBS_PER_HOUR = "jobs_per_hour"
    QUEUE_SIZE = "queue_size"
    STORAGE_BYTES = "storage_bytes"


@dataclass(frozen=True, slots=True)
class Allowance:
    """The limits of a tier for each of its users; None means no limit."""

    pending_jobs: int | None = None
    jobs_per_hour: int | None = None
    storage_bytes: int | None = None

    @classmethod
    def of(cls, tier: TierConfig) -> "Allowance | None":
        """None when nothing is limited: the jobs of such users need not be counted."""
        limits = tier.pending_jobs, tier.jobs_per_hour, tier.storage_bytes
        return None if limits == (None, None, None) else cls(*limits)


@dataclass(frozen=True, slots=True)
class Use:
    """A user's live jobs, jobs of the last hour and bytes of files.

    `hour_frees_in_s` is set when the hour is used up.

    `waiting`: jobs of the user wait for a limit. These are not counted.
    """

    pending: int = 0
    this_hour: int = 0
    hour_frees_in_s: float | None = None
    waiting: bool = False
    stored_bytes: int = 0


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
    """More jobs in one batch than a limit ever allows: waiting cannot help."""

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


QuotaVerdict = LimitReached | MustWait | None


def admit(
    candidates: Sequence[QuotaCandidate], used: Mapping[UserId, Use], room: int | None, queue_size: int
) -> list[QuotaVerdict]:
    """For each candidate the limit that it reaches, or None; in order. `room` None: the queue has room."""
    usage = _Usage(used, room, queue_size)
    answers: list[QuotaVerdict] = [None] * len(candidates)
    for indexes in _groups(candidates):
        verdicts: list[QuotaVerdict] = []
        for index in indexes:
            starting = sum(verdict is None for verdict in verdicts)
            verdicts.append(usage.check(candidates[index], len(verdicts), starting))
        refused = [verdict for verdict in verdicts if isinstance(verdict, LimitReached)]
        for index, verdict in zip(indexes, verdicts, strict=True):
            # A job that would have been admitted alone is refused with its group.
            answers[index] = refused[0] if refused and not isinstance(verdict, LimitReached) else verdict
        if not refused:
            usage.add([candidates[index] for index in indexes], verdicts)
    return answers


def admissible(allowance: Allowance | None, use: Use, waiting: int) -> int:
    """How many of so many jobs that wait for the limits of their user may start now."""
    bounds = [waiting]
    if (
        allowance is not None
        and allowance.storage_bytes is not None
        and use.stored_bytes >= allowance.storage_bytes
    ):
        return 0
    if allowance is not None and allowance.pending_jobs is not None:
        bounds.append(allowance.pending_jobs - use.pending)
    if allowance is not None and allowance.jobs_per_hour is not None:
        bounds.append(allowance.jobs_per_hour - use.this_hour)
    return max(0, min(bounds))


def exceeds_limit(requested: int, allowance: Allowance | None, queue_size: int) -> ExceedsLimit | None:
    """The smallest limit, if so many jobs exceed it even when nothing of it is used."""
    limits = allowance or Allowance()
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
        self._added: dict[UserId, int] = {}
        self._waiting: set[UserId] = set()
        self._total = 0

    def check(self, candidate: QuotaCandidate, before: int, starting: int) -> QuotaVerdict:
        """The limit that it reaches after `before` others of its group, of which `starting` do not wait."""
        if self._room is not None and self._total + before >= self._room:
            return LimitReached(
                QuotaLimit.QUEUE_SIZE, self._queue_size, self._queue_size - self._room + self._total
            )
        if candidate.allowance is None:
            return None
        use = self._used.get(candidate.user, Use())
        if candidate.may_wait and (use.waiting or candidate.user in self._waiting):
            return MustWait()  # jobs that wait start in the order of their arrival
        reached = _check_allowance(candidate.allowance, use, self._added.get(candidate.user, 0), starting)
        return MustWait() if reached is not None and candidate.may_wait else reached

    def add(self, candidates: Sequence[QuotaCandidate], verdicts: Sequence[QuotaVerdict]) -> None:
        for candidate, verdict in zip(candidates, verdicts, strict=True):
            self._total += 1
            if verdict is None:
                self._added[candidate.user] = self._added.get(candidate.user, 0) + 1
            else:
                self._waiting.add(candidate.user)


def _check_allowance(allowance: Allowance, use: Use, added: int, before: int) -> LimitReached | None:
    """Those of its own group `before` it count, but are not reported as used: they are not stored yet."""
    per_hour, this_hour = allowance.jobs_per_hour, use.this_hour + added
    if per_hour is not None and this_hour + before >= per_hour:
        frees_in_s = use.hour_frees_in_s if use.hour_frees_in_s is not None else HOUR_S
        return LimitReached(QuotaLimit.JOBS_PER_HOUR, per_hour, this_hour, frees_in_s)
    if allowance.storage_bytes is not None and use.stored_bytes >= allowance.storage_bytes:
        return LimitReached(QuotaLimit.STORAGE_BYTES, allowance.storage_bytes, use.stored_bytes)
    max_pending, pending = allowance.pending_jobs, use.pending + added
    if max_pending is not None and pending + before >= max_pending:
        return LimitReached(QuotaLimit.PENDING_JOBS, max_pending, pending)
    return None
