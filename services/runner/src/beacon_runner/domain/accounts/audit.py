"""The audit log: an entry for each change of users, keys, credit, webhooks, queues and jobs of others."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from beacon_contracts.ids import AuditId, UserId


@dataclass(frozen=True, slots=True)
class Actor:
    """Who makes a change. `user` None: a process of Beacon; `key`: the public prefix of the key."""

    user: UserId | None
    key: str | None = None


SYSTEM = Actor(None)


@dataclass(frozen=True, slots=True)
class AuditEntry:
    id: AuditId
    at: datetime
    actor: Actor
    actor_name: str
    action: str
    target: str
    details: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """None selects everything; times are from `since`, and before `until`."""

    actor: UserId | None = None
    action: str | None = None
    target: str | None = None
    since: datetime | None = None
    until: datetime | None = None
