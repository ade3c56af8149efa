"""Users, their keys, their limits and their credit."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints

from beacon_contracts.model import Moment, RequestModel, ResponseModel, Text
from beacon_contracts.tiers import JobClass, ShareWeight, Tier


class Scope(StrEnum):
    """The permission of a key: work of its own user, administration, or calls by another service."""

    USER = "user"
    ADMIN = "admin"
    SERVICE = "service"


class LimitUse(ResponseModel):
    """`limit` and `left` are None where no limit applies; `used` is None where nothing is counted."""

    limit: int | None = None
    used: int | None = 0
    left: int | None = None
    resets_in_s: float | None = None


class Me(ResponseModel):
    """The user of a key.

    `limits`: `pending_jobs`, `jobs_per_hour`, `in_flight_executions`, `gpu_seconds_per_day`,
    `requests_per_minute` and `concurrent_requests` of `/v1`, `streams` and `storage_bytes`.
    `models`: the models that the tier allows; empty means all.
    """

    user_id: str
    name: str
    tier: Tier
    priority: JobClass
    scopes: list[Scope]
    credit: int = 0
    max_duration_s: float | None = None
    executions_per_job: int | None = None
    models: list[str] = Field(default_factory=list)
    limits: dict[str, LimitUse] = Field(default_factory=dict)


class LedgerEntry(ResponseModel):
    """One change of a user's credit; `refunds` is the id of the refunded entry."""

    id: int
    at: datetime
    entry: str
    amount: int
    balance: int
    job_id: str | None = None
    refunds: int | None = None
    note: str = ""


class Ledger(ResponseModel):
    """Newest first."""

    entries: list[LedgerEntry]
    next_cursor: str | None = None


UserName = Annotated[Text, StringConstraints(min_length=1, max_length=100, strip_whitespace=True)]


class NewUser(RequestModel):
    """A user to create, with a first key."""

    name: UserName
    tier: Tier | None = Field(default=None, description="Default: the lowest tier")
    weight: ShareWeight = 1.0


class DisabledJobs(StrEnum):
    """Whether the live jobs of a disabled user are held, until the user is enabled, or cancelled."""

    HOLD = "hold"
    CANCEL = "cancel"


class UserChange(RequestModel):
    """Omitted fields do not change. `jobs` is valid only with `disabled: true`; the default is `hold`."""

    tier: Tier | None = None
    weight: ShareWeight | None = None
    disabled: bool | None = None
    jobs: DisabledJobs | None = None


class CreditChange(RequestModel):
    """Credit to add, or to remove if negative."""

    amount: Annotated[int, Field(strict=True, ge=-1_000_000_000, le=1_000_000_000)]
    note: Annotated[Text, Field(max_length=200)] = ""


class NewKey(RequestModel):
    """A further key of a user."""

    name: Annotated[Text, Field(max_length=100)] = ""
    scopes: Annotated[list[Scope], Field(min_length=1, max_length=3)] = Field(default=[Scope.USER])
    expires_at: Moment | None = None


class UserView(ResponseModel):
    """A user without keys."""

    id: str
    name: str
    tier: Tier
    weight: float = 1.0
    credit: int
    created_at: datetime | None = None
    disabled_at: datetime | None = None


class UserCreated(UserView):
    """A new user with its first key, which is not shown again."""

    key: str


class UserPage(ResponseModel):
    """Users, in the order of their names."""

    users: list[UserView]
    next_cursor: str | None = None


class KeyView(ResponseModel):
    """A key without its secret; `hint` is its public prefix."""

    id: str
    user_id: str
    name: str = ""
    hint: str
    scopes: list[Scope]
    created_at: datetime | None = None
    expires_at: datetime | None = None
    revoked_at: datetime | None = None


class KeyCreated(KeyView):
    """A key with its secret, which is returned only here."""

    key: str


class KeyList(ResponseModel):
    """The keys of a user, revoked ones included."""

    keys: list[KeyView]
