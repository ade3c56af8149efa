"""`beacon watch`: a job live in the terminal, line by line in a pipe, as JSON lines for programs."""

import sys
from typing import Annotated

import orjson
import typer
from rich.live import Live

from beacon_client.cli.board import board, event_words, executions_table, job_facts
from beacon_client.cli.completion import recent_jobs
from beacon_client.cli.connect import ask
from beacon_client.cli.exits import Exit
from beacon_client.cli.output import AsJson, console, wants_json
from beacon_client.runner import RunnerClient
from beacon_contracts.events import JobEvent
from beacon_contracts.jobs import JobState, JobView
from beacon_lifecycle.clock import SystemClock

REFRESH_S = 0.25


def watch(
    job_id: Annotated[
        str, typer.Argument(metavar="JOB", help="The job's id: job_…", autocompletion=recent_jobs)
    ],
    after: Annotated[int, typer.Option(min=0, help="Only events after this number.")] = 0,
    _json: AsJson = False,
) -> None:
    """Follow a job to its end. Exit code 0 when it completed, 1 when it did not."""
    follow(job_id, after)


def follow(job_id: str, after: int = 0) -> None:
    if wants_json():
        final = ask(lambda client: _as_json(client, job_id, after))
    elif sys.stdout.isatty():
        final = ask(lambda client: _live(client, job_id, after))
    else:
        final = ask(lambda client: _lines(client, job_id, after))
    if final.status is not JobState.COMPLETED:
        raise typer.Exit(Exit.FAILED)


async def _as_json(client: RunnerClient, job_id: str, after: int) -> JobView:
    async for event in client.watch(job_id, after=after):
        typer.echo(orjson.dumps(event.model_dump(mode="json")))
    return await client.job(job_id)


async def _lines(client: RunnerClient, job_id: str, after: int) -> JobView:
    out = console()
    async for event in client.watch(job_id, after=after):
        out.print(f"{event.at:%H:%M:%S} {event.seq:>4} {event.type:<20} {event_words(event)}", markup=False)
    return await _ending(client, job_id)


async def _live(client: RunnerClient, job_id: str, after: int) -> JobView:
    """The board is drawn from the job as it is now; events only say that it has changed."""
    clock = SystemClock()
    with Live(
        board(await client.job(job_id)), console=console(), refresh_per_second=8, transient=True
    ) as live:
        drawn_at = clock.now()
        latest: JobEvent | None = None
        async for event in client.watch(job_id, after=after):
            latest = event
            if clock.now() - drawn_at >= REFRESH_S:
                live.update(board(await client.job(job_id), latest))
                drawn_at = clock.now()
    return await _ending(client, job_id)


async def _ending(client: RunnerClient, job_id: str) -> JobView:
    job = await client.job(job_id)
    out = console()
    out.print(job_facts(job))
    out.print(executions_table(job.executions))
    return job
