"""How much a user may ask for, and who of several newcomers still fits: decided from counts alone."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from beacon_config.tiers import TierConfig
from beacon_contracts.ids import UserId

HOUR_S = 3600.0


class Limit(StrEnum):
    PENDING_JOBS = "pending_jobs"
    JOBS_PER_HOUR = "jobs_per_hour"
    QUEUE_SIZE = "queue_size"


@dataclass(frozen=True, slots=True)
class Allowance:
    """What a tier grants to each of its users; None does not apply."""

    pending_jobs: int | None = None
    jobs_per_hour: int | None = None

    @classmethod
    def of(cls, tier: TierConfig) -> "Allowance | None":
        """None when nothing is limited: such users need not be counted."""
        if tier.pending_jobs is None and tier.jobs_per_hour is None:
            return None
        return cls(tier.pending_jobs, tier.jobs_per_hour)


@dataclass(frozen=True, slots=True)
class Use:
    """What a user has now; `hour_frees_in_s` is when the hour has a free place again, if it has none."""

    pending: int = 0
    this_hour: int = 0
    hour_frees_in_s: float | None = None


@dataclass(frozen=True, slots=True)
class LimitReached:
    """Why a job was not taken; `frees_in_s` is None when nobody can tell."""

    limit: Limit
    allowed: int
    used: int
    frees_in_s: float | None = None


@dataclass(frozen=True, slots=True)
class OutOfReach:
    """So many jobs are more than a limit ever lets in together: no wait makes room for them."""

    limit: Limit
    allowed: int
    asked: int


@dataclass(frozen=True, slots=True)
class Newcomer:
    """A job that asks to be let in; those of one `group` are let in together or not at all."""

    user: UserId
    allowance: Allowance | None
    group: object


def let_in(
    newcomers: Sequence[Newcomer], used: Mapping[UserId, Use], room: int | None, queue_size: int
) -> list[LimitReached | None]:
    """For each newcomer the limit that it meets, or None; first come, first served. `room` None is enough."""
    taken = _Taken(used, room, queue_size)
    answers: list[LimitReached | None] = [None] * len(newcomers)
    for places in _groups(newcomers):
        verdicts = [taken.add(newcomers[place], offset) for offset, place in enumerate(places)]
        if any(verdicts):
            for place, verdict in zip(places, verdicts, strict=True):
                answers[place] = verdict or _held_up(verdicts)
        else:
            taken.keep(newcomers[place] for place in places)
    return answers


def out_of_reach(asked: int, allowance: Allowance | None, queue_size: int) -> OutOfReach | None:
    """The narrowest limit, when so many jobs pass it even where nothing of it is used."""
    granted = allowance or Allowance()
    bounds = {
        Limit.PENDING_JOBS: granted.pending_jobs,
        Limit.JOBS_PER_HOUR: granted.jobs_per_hour,
        Limit.QUEUE_SIZE: queue_size,
    }
    known = {limit: allowed for limit, allowed in bounds.items() if allowed is not None}
    narrowest = min(known, key=known.__getitem__)
    return OutOfReach(narrowest, known[narrowest], asked) if asked > known[narrowest] else None


def _groups(newcomers: Sequence[Newcomer]) -> Iterable[list[int]]:
    groups: dict[object, list[int]] = {}
    for place, newcomer in enumerate(newcomers):
        groups.setdefault(newcomer.group, []).append(place)
    return groups.values()


def _held_up(verdicts: Sequence[LimitReached | None]) -> LimitReached | None:
    """A job that would have fitted, but for the others of its group."""
    return next(verdict for verdict in verdicts if verdict is not None)


class _Taken:
    """What is used while newcomers are let in one after another."""

    def __init__(self, used: Mapping[UserId, Use], room: int | None, queue_size: int) -> None:
        self._used = used
        self._room = room
        self._queue_size = queue_size
        self._added: dict[UserId, int] = {}
        self._total = 0

    def add(self, newcomer: Newcomer, before: int) -> LimitReached | None:
        """Whether it fits after `before` others of its group."""
        if self._room is not None and self._total + before >= self._room:
            return LimitReached(
                Limit.QUEUE_SIZE, self._queue_size, self._queue_size - self._room + self._total
            )
        if newcomer.allowance is None:
            return None
        return _checked(
            newcomer.allowance,
            self._used.get(newcomer.user, Use()),
            self._added.get(newcomer.user, 0),
            before,
        )

    def keep(self, newcomers: Iterable[Newcomer]) -> None:
        for newcomer in newcomers:
            self._added[newcomer.user] = self._added.get(newcomer.user, 0) + 1
            self._total += 1


def _checked(allowance: Allowance, use: Use, added: int, before: int) -> LimitReached | None:
    """Those of its own group `before` it count, but are not told of as used: nobody has them yet."""
    per_hour, this_hour = allowance.jobs_per_hour, use.this_hour + added
    if per_hour is not None and this_hour + before >= per_hour:
        frees_in_s = use.hour_frees_in_s if use.hour_frees_in_s is not None else HOUR_S
        return LimitReached(Limit.JOBS_PER_HOUR, per_hour, this_hour, frees_in_s)
    most, pending = allowance.pending_jobs, use.pending + added
    if most is not None and pending + before >= most:
        return LimitReached(Limit.PENDING_JOBS, most, pending)
    return None
