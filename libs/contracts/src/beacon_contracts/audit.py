"""The audit log: who changed what."""

from datetime import datetime
from enum import StrEnum
from typing import Any

from beacon_contracts.model import ResponseModel


class AuditAction(StrEnum):
    """Changes that are recorded; the part before the dot is the kind of the target.

    Cancel, resume, skip, retry and the deletion of files are recorded only for jobs and files of other users.
    """

    USER_CREATED = "user.created"
    USER_CHANGED = "user.changed"
    USER_DELETED = "user.deleted"
    CREDIT_CHANGED = "user.credit_changed"
    KEY_CREATED = "key.created"
    KEY_REVOKED = "key.revoked"
    WEBHOOK_CREATED = "webhook.created"
    WEBHOOK_CHANGED = "webhook.changed"
    WEBHOOK_ROTATED = "webhook.secret_rotated"
    WEBHOOK_DELETED = "webhook.deleted"
    JOB_CANCELLED = "job.cancelled"
    JOB_RESUMED = "job.resumed"
    JOB_SKIPPED = "job.skipped"
    EXECUTION_RETRIED = "job.execution_retried"
    JOB_DELETED = "job.deleted"
    FILE_DELETED = "file.deleted"
    BULK_STARTED = "jobs.bulk_started"
    DEAD_LETTERS_PURGED = "dead_letters.purged"
    DEAD_LETTERS_REQUEUED = "dead_letters.requeued"
    QUEUE_PAUSED = "queue.paused"
    QUEUE_RESUMED = "queue.resumed"
    LANES_RESET = "lanes.reset"
    CONFIG_CHANGED = "config.changed"
    CONFIG_ROLLED_BACK = "config.rolled_back"
    BACKEND_ADDED = "backend.added"
    BACKEND_CHANGED = "backend.changed"
    BACKEND_DRAINED = "backend.drained"
    BACKEND_RESUMED = "backend.resumed"
    BACKEND_REMOVED = "backend.removed"
    MODEL_PAUSED = "model.paused"
    MODEL_RESUMED = "model.resumed"


class AuditActor(ResponseModel):
    """`user_id` and `key` are null for the system itself; `key` is the public prefix."""

    user_id: str | None = None
    name: str
    key: str | None = None


class AuditEntryView(ResponseModel):
    """A change with its actor; `details` has no secrets."""

    id: str
    at: datetime
    actor: AuditActor
    action: str
    target: str
    details: dict[str, Any]


class AuditPage(ResponseModel):
    """Newest first."""

    entries: list[AuditEntryView]
    next_cursor: str | None = None
