"""Commands that change or delete jobs: `beacon bulk`, `beacon delete`."""

from typing import Annotated

import typer

from beacon_cli import job_filters as options
from beacon_cli.commands.user import find_user
from beacon_cli.connect import call_runner
from beacon_cli.errors import InputError
from beacon_cli.job_filters import filters_of
from beacon_cli.operations import Yes, confirm, finished, show_operation
from beacon_cli.output.printing import AsJson, print_result
from beacon_client.runner import RunnerClient
from beacon_contracts.operations import BulkAction, OperationView

JobIds = Annotated[
    list[str] | None, typer.Argument(metavar="[JOB]...", help="Given jobs instead of filters.")
]


def bulk(
    action: Annotated[BulkAction, typer.Argument(help="What to do with all matching jobs.")],
    job_ids: JobIds = None,
    *,
    status: options.Status = None,
    kind: options.Kind = None,
    model: options.Model = None,
    tag: options.Tag = None,
    metadata: options.Metadata = None,
    name: options.Name = None,
    after: options.After = None,
    before: options.Before = None,
    all_users: options.AllUsers = False,
    user: options.User = None,
    yes: Yes = False,
    _json: AsJson = False,
) -> None:
    """Cancel, resume, retry or delete all jobs that match the filters, or the given ones."""
    filters = filters_of(
        status=status,
        kind=kind,
        model=model,
        tag=tag,
        metadata=metadata,
        name=name,
        after=after,
        before=before,
        all_users=all_users,
    )
    if bool(job_ids) == bool(filters or user):
        raise InputError("give either jobs or at least one filter (see --help)")
    selected = f"{len(job_ids)} jobs" if job_ids else "all jobs that match"
    confirm(f"{action.capitalize()} {selected}?", yes=yes)

    async def work(client: RunnerClient) -> OperationView:
        if job_ids:
            started = await client.bulk(action, job_ids=job_ids)
        else:
            if user is not None:
                filters["user"] = (await find_user(client, user)).id
            started = await client.bulk(action, **filters)
        return await finished(client, started)

    show_operation(call_runner(work, admin=all_users or user is not None))


def delete(
    job_ids: Annotated[list[str], typer.Argument(metavar="JOB...", help="Jobs that have ended.")],
    yes: Yes = False,
    _json: AsJson = False,
) -> None:
    """Delete jobs that have ended, with their executions, events and files."""
    confirm(f"Delete {', '.join(job_ids)}?", yes=yes)

    async def work(client: RunnerClient) -> None:
        for job_id in job_ids:
            await client.delete(job_id)

    call_runner(work)
    print_result({"deleted": job_ids}, *(f"deleted {job_id}" for job_id in job_ids))
