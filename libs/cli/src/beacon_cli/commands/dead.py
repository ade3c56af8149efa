"""`beacon dead`: dead letters. Needs an administrator's key."""

from typing import Annotated

import typer

from beacon_cli.connect import call_runner
from beacon_cli.errors import InputError, MissingError
from beacon_cli.exit_codes import Exit
from beacon_cli.output.formatting import ago
from beacon_cli.output.printing import AsJson, facts, print_result, table
from beacon_client.runner import RunnerClient
from beacon_contracts.queue_admin import DeadLetterPage, DeadLetterView

dead = typer.Typer(help="Dead letters: list, show, requeue, purge (administrators).", no_args_is_help=True)

Chosen = Annotated[list[str] | None, typer.Argument(metavar="[JOB]...", help="Jobs by id; or --all.")]
All = Annotated[bool, typer.Option("--all", help="All dead letters.")]


@dead.callback()
def _group() -> None:
    """Dead letters: list, show, requeue, purge (administrators)."""


@dead.command("list")
def list_(
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=500)] = 20, _json: AsJson = False
) -> None:
    """List dead letters, newest first."""
    page: DeadLetterPage = call_runner(lambda client: client.admin.dead_letter_page(limit=limit), admin=True)
    rows = [
        (one.job_id, one.name or one.kind, one.reason, one.failure and one.failure.message, ago(one.died_at))
        for one in page.dead_letters
    ]
    more = page.total - len(rows)
    parts = [f"[dim]and {more} more[/]"] if more > 0 else []
    print_result(page, table(("job", "name", "reason", "last error", "died"), rows), *parts)


@dead.command("show")
def show(job_id: Annotated[str, typer.Argument(metavar="JOB")], _json: AsJson = False) -> None:
    """Show one dead letter with its reason and last error."""
    letter = call_runner(lambda client: _find(client, job_id), admin=True)
    failure = letter.failure
    pairs: list[tuple[str, object]] = [
        ("job", letter.job_id),
        ("name", letter.name or None),
        ("status", letter.status or None),
        ("reason", letter.reason),
        ("died", ago(letter.died_at)),
        ("stage", letter.stage),
        ("attempt", letter.attempt),
    ]
    if failure is not None:
        pairs += [("error", failure.code), ("where", failure.stage), ("retryable", failure.retryable)]
        pairs += [("item", failure.item), ("message", failure.message)]
    print_result(letter, facts(pairs))


async def _find(client: RunnerClient, job_id: str) -> DeadLetterView:
    async for letter in client.admin.dead_letters():
        if letter.job_id == job_id:
            return letter
    raise MissingError(f"there is no dead letter of {job_id}")


@dead.command("requeue")
def requeue(jobs: Chosen = None, all_: All = False, _json: AsJson = False) -> None:
    """Queue dead letters again, with their attempts reset."""
    chosen = _choice(jobs, all_=all_)
    count = call_runner(lambda client: client.admin.requeue(chosen), admin=True)
    print_result({"requeued": count}, f"{count} requeued")


@dead.command("purge")
def purge(
    jobs: Chosen = None,
    all_: All = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    _json: AsJson = False,
) -> None:
    """Delete dead letters; the jobs stay readable."""
    chosen = _choice(jobs, all_=all_)
    what = "all dead letters" if chosen is None else f"{len(chosen)} dead letters"
    if not yes and not typer.confirm(f"Purge {what}? They cannot be requeued afterwards.", err=True):
        raise typer.Exit(Exit.FAILED)
    count = call_runner(lambda client: client.admin.purge(chosen), admin=True)
    print_result({"purged": count}, f"{count} purged")


def _choice(jobs: list[str] | None, *, all_: bool) -> list[str] | None:
    """The ids; None means all dead letters."""
    if bool(jobs) == all_:
        raise InputError("give the ids of jobs, or --all")
    return jobs or None
