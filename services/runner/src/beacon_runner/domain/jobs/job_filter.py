"""Which jobs a list or a bulk operation is about."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from beacon_contracts.ids import UserId
from beacon_contracts.jobs import JobState
from beacon_contracts.operations import JobSelector

_MIN_ID, _MAX_ID = UUID(int=0), UUID(int=2**128 - 1)
_RANDOM_BITS = 80  # of an id (UUIDv7): before them is the time in milliseconds


@dataclass(frozen=True, slots=True)
class JobFilter:
    """A job must match all that is given. `user` None: all users' jobs.

    `name` is the beginning of its name, in any case. `created_before` is exclusive.
    """

    user: UserId | None = None
    states: tuple[JobState, ...] = ()
    kind: str | None = None
    model: str | None = None
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    name: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None

    @classmethod
    def of(cls, selector: JobSelector, user: UserId | None) -> "JobFilter":
        return cls(
            user,
            tuple(selector.status),
            selector.kind,
            selector.model,
            tuple(selector.tag),
            selector.metadata,
            selector.name,
            selector.created_after,
            selector.created_before,
        )

    @property
    def labels(self) -> dict[str, Any] | None:
        """What the labels of a job must contain; None for anything."""
        return labels_of(self.tags, self.metadata)

    @property
    def label_keys(self) -> list[tuple[str, str]]:
        """The kind and text of each label, as they are in the index of labels."""
        tags = [("tag", tag) for tag in self.tags]
        return tags + [("metadata", f"{key}={value}") for key, value in self.metadata.items()]

    @property
    def id_range(self) -> tuple[UUID, UUID]:
        """The smallest id, and one above the greatest, of the times in question: ids begin with the time."""
        return _first_id(self.created_after, _MIN_ID), _first_id(self.created_before, _MAX_ID)


def labels_of(tags: object, metadata: object, **more: object) -> dict[str, Any] | None:
    """Tags, metadata and more labels of a job as they are stored; None when there are none."""
    labels = {"tags": tags, "metadata": metadata, **more}
    return {name: value for name, value in labels.items() if value} or None


def _first_id(moment: datetime | None, default: UUID) -> UUID:
    if moment is None:
        return default
    return UUID(int=max(0, int(moment.timestamp() * 1000)) << _RANDOM_BITS)
