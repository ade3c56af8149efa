"""Commands for jobs: list, show, wait reason, cancel, resume, skip, retry."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from beacon_cli import job_filters as options
from beacon_cli.commands.user import find_user
from beacon_cli.completion import recent_jobs
from beacon_cli.connect import call_runner
from beacon_cli.job_filters import filters_of
from beacon_cli.output.formatting import ago, file_size, seconds
from beacon_cli.output.job_table import answers_table, grid, job_facts
from beacon_cli.output.printing import AsJson, facts, print_result, table
from beacon_cli.output.transfers import transfer_bar
from beacon_client.outputs import SavedFile
from beacon_client.runner import RunnerClient
from beacon_contracts.jobs import ExecutionView, JobSummary, JobView

JobId = Annotated[str, typer.Argument(metavar="JOB", help="The job's id: job_…", autocompletion=recent_jobs)]
ExecutionId = Annotated[str, typer.Argument(metavar="EXECUTION", help="The execution's id: exe_….0.3")]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="Maximum number.")]

NO_LIMIT = "no limit"


def jobs(
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
    limit: Limit = 20,
    _json: AsJson = False,
) -> None:
    """List your jobs, newest first."""

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

    async def first(client: RunnerClient) -> list[JobSummary]:
        found: list[JobSummary] = []
        if user is not None:
            filters["user"] = (await find_user(client, user)).id
        pages = client.jobs(page_size=min(limit, 100), **filters)
        async for one in pages:
            found.append(one)
            if len(found) == limit:
                break
        await pages.aclose()
        return found

    of_others = all_users or user is not None
    found = call_runner(first, admin=of_others)
    rows = [
        (
            job.job_id,
            job.kind,
            job.name,
            job.status,
            _done(job),
            job.priority,
            ago(job.created_at),
            *([job.user_id] if of_others else []),
        )
        for job in found
    ]
    columns = ("job", "kind", "name", "status", "done", "class", "created")
    print_result(found, table((*columns, "user") if of_others else columns, rows))


def _done(job: JobSummary) -> str:
    return f"{job.progress.completed} of {job.progress.total}"


def job(
    job_id: JobId,
    answers: Annotated[
        bool, typer.Option("--answers", "-a", help="Every answer instead of the grid.")
    ] = False,
    save: Annotated[
        Path | None, typer.Option("--save", metavar="DIR", help="Save the files that it has made into DIR.")
    ] = None,
    _json: AsJson = False,
) -> None:
    """Show one job: state, progress, executions, failures. With --save: its files."""
    if save is not None:
        _save(job_id, save)
        return
    _show(call_runner(lambda client: client.job(job_id)), answers=answers)


def _save(job_id: str, folder: Path) -> None:
    async def work(client: RunnerClient) -> list[SavedFile]:
        with transfer_bar(f"files of {job_id}") as progress:
            return await client.save_outputs(job_id, folder, progress=progress)

    saved = call_runner(work)
    rows = [(one.path, file_size(one.bytes), "" if one.downloaded else "was there") for one in saved]
    fresh = sum(one.downloaded for one in saved)
    documents = [
        {"path": str(one.path), "file": one.file_id, "bytes": one.bytes, "downloaded": one.downloaded}
        for one in saved
    ]
    parts = [table(("path", "size", ""), rows)] if rows else []
    print_result(documents, *parts, f"{fresh} of {len(saved)} files downloaded")


def _show(view: JobView, *, answers: bool = False) -> None:
    shown = answers_table(view.executions) if answers else grid(view)
    print_result(view, job_facts(view), "", shown)


def why(job_id: JobId, _json: AsJson = False) -> None:
    """Show what a job waits for: jobs ahead, or the region, backend, limit or breaker that holds it."""
    found = call_runner(lambda client: client.why(job_id))
    rows = [
        (
            wait.execution_id,
            wait.state,
            wait.model,
            wait.region,
            wait.position,
            _eta(wait.eta),
            wait.waiting_for,
        )
        for wait in found.executions
    ]
    columns = ("execution", "state", "model", "region", "position", "expected", "waits for")
    parts = [table(columns, rows)] if rows else []
    print_result(
        found,
        f"[bold]{escape(found.summary)}[/]",
        *(f"  {escape(reason)}" for reason in found.reasons),
        *parts,
    )


def _eta(eta: object) -> str:
    p50, p90 = getattr(eta, "p50_s", None), getattr(eta, "p90_s", None)
    return f"{seconds(p50)}, at most {seconds(p90)}" if p50 is not None else ""


def cancel(job_id: JobId, _json: AsJson = False) -> None:
    """Cancel a queued or running job. It stays readable."""
    _show(call_runner(lambda client: client.cancel(job_id)))


def resume(job_id: JobId, _json: AsJson = False) -> None:
    """Continue a failed or partial job from the failed stage; completed executions are kept."""
    _show(call_runner(lambda client: client.resume(job_id)))


def skip(job_id: JobId, _json: AsJson = False) -> None:
    """Pay for priority. The price depends on its duration and is refunded if nothing of it runs."""
    _show(call_runner(lambda client: client.skip(job_id)))


def retry(
    execution_id: ExecutionId,
    _json: AsJson = False,
) -> None:
    """Run one failed execution again."""
    found: ExecutionView = call_runner(lambda client: client.retry_execution(execution_id))
    print_result(found, facts([("execution", found.id), ("state", found.state)]), answers_table([found]))


def execution(
    execution_id: ExecutionId,
    _json: AsJson = False,
) -> None:
    """Show one execution with all its attempts."""
    found = call_runner(lambda client: client.execution(execution_id))
    rows = [
        (
            one.number,
            one.state,
            one.region,
            one.backend,
            one.failure and one.failure.message,
            ago(one.started_at),
        )
        for one in found.attempts or ()
    ]
    attempts = table(("attempt", "state", "region", "backend", "failure", "started"), rows)
    print_result(
        found, facts([("execution", found.id), ("job", found.job_id)]), answers_table([found]), "", attempts
    )


def me(_json: AsJson = False) -> None:
    """Show your key's user: tier, limits with what is left, credit."""
    found = call_runner(lambda client: client.me())
    limits = [
        ("longest duration", NO_LIMIT if found.max_duration_s is None else seconds(found.max_duration_s)),
        ("executions per job", NO_LIMIT if found.executions_per_job is None else found.executions_per_job),
        ("models", ", ".join(found.models) or "all"),
        *(
            (name.replace("_", " "), NO_LIMIT if use.limit is None else f"{use.left} of {use.limit} left")
            for name, use in found.limits.items()
        ),
    ]
    scopes = ", ".join(found.scopes)
    pairs = [("name", found.name), ("user", found.user_id), ("tier", found.tier), ("class", found.priority)]
    print_result(found, facts([*pairs, ("scopes", scopes), ("credit", found.credit), *limits]))
