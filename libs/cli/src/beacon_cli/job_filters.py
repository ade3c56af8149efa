"""The options that select jobs, for lists and for operations on many jobs."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated

import typer

from beacon_cli.errors import InputError
from beacon_client.job_filters import JobFilters
from beacon_contracts.jobs import JobState

Status = Annotated[list[JobState] | None, typer.Option(help="Only jobs in this state; repeatable.")]
Kind = Annotated[str | None, typer.Option(help="matrix, pipeline or generation.")]
Model = Annotated[str | None, typer.Option(help="Only jobs with this model.")]
Tag = Annotated[list[str] | None, typer.Option(help="Only jobs with this tag; repeatable.")]
Metadata = Annotated[
    list[str] | None, typer.Option(help="Only jobs with this metadata, as key=value; repeatable.")
]
Name = Annotated[str | None, typer.Option(help="Only jobs whose name begins with this text.")]
After = Annotated[datetime | None, typer.Option(help="Only jobs submitted at this time (UTC) or later.")]
Before = Annotated[datetime | None, typer.Option(help="Only jobs submitted before this time (UTC).")]
AllUsers = Annotated[bool, typer.Option("--all-users", help="All users' jobs (administrators).")]
User = Annotated[str | None, typer.Option(help="Jobs of this user, by name or id (administrators).")]


def filters_of(
    *,
    status: Sequence[JobState] | None,
    kind: str | None,
    model: str | None,
    tag: Sequence[str] | None,
    metadata: Sequence[str] | None,
    name: str | None,
    after: datetime | None,
    before: datetime | None,
    all_users: bool,
) -> JobFilters:
    """The filters that are given."""
    found: JobFilters = {}
    if status:
        found["status"] = status
    if kind:
        found["kind"] = kind
    if model:
        found["model"] = model
    if tag:
        found["tag"] = tag
    if metadata:
        found["metadata"] = text_pairs(metadata)
    if name:
        found["name"] = name
    if after:
        found["created_after"] = after.replace(tzinfo=UTC)
    if before:
        found["created_before"] = before.replace(tzinfo=UTC)
    if all_users:
        found["all_users"] = True
    return found


def text_pairs(texts: Sequence[str] | None) -> dict[str, str]:
    """Parses `key=value`."""
    found: dict[str, str] = {}
    for text in texts or ():
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise InputError(f"{text!r} is not of the form key=value")
        found[key] = value
    return found
