"""`beacon watch`: a job live in the terminal, line by line in a pipe, as JSON lines for programs."""

import sys
from contextlib import suppress
from typing import Annotated

import orjson
import typer
from rich.live import Live

from beacon_client.cli.board import answers_table, board, event_words, job_facts
from beacon_client.cli.completion import recent_jobs
from beacon_client.cli.connect import ask
from beacon_client.cli.exits import Exit
from beacon_client.cli.output import AsJson, console, wants_json
from beacon_client.errors import BeaconError
from beacon_client.runner import RunnerClient
from beacon_contracts.events import JobEvent
from beacon_contracts.jobs import JobState, JobView
from beacon_lifecycle import SystemClock, TaskSet, WakeEvent

AT_MOST_EVERY_S = 0.2
AT_LEAST_EVERY_S = 2.0


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
    first = await client.job(job_id)
    tasks = TaskSet("watch")
    with Live(board(first), console=console(), auto_refresh=False, transient=True) as live:
        screen = _Screen(client, job_id, live)
        tasks.spawn("draw", screen.draw_forever())
        try:
            async for event in client.watch(job_id, after=after):
                screen.tell(event)
        finally:
            await tasks.close()
    return await _ending(client, job_id)


class _Screen:
    """Draws the job as it is now: soon after an event, and now and then, because estimates change too."""

    def __init__(self, client: RunnerClient, job_id: str, live: Live) -> None:
        self._client = client
        self._job_id = job_id
        self._live = live
        self._latest: JobEvent | None = None
        self._wakeup = WakeEvent()
        self._clock = SystemClock()

    def tell(self, event: JobEvent) -> None:
        self._latest = event
        self._wakeup.set()

    async def draw_forever(self) -> None:
        while True:
            await self._wakeup.wait(AT_LEAST_EVERY_S, self._clock)
            with suppress(BeaconError):  # the watch itself decides when the runner was away for too long
                self._live.update(board(await self._client.job(self._job_id), self._latest), refresh=True)
            await self._clock.sleep(AT_MOST_EVERY_S)


async def _ending(client: RunnerClient, job_id: str) -> JobView:
    job = await client.job(job_id)
    out = console()
    out.print(job_facts(job))
    out.print(answers_table(job.executions))
    return job
