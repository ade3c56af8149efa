"""`beacon watch`: a job live in the terminal, line by line in a pipe, as JSON lines for programs."""

import sys
from contextlib import suppress
from typing import Annotated

import orjson
import typer
from rich.live import Live

from beacon_cli.completion import recent_jobs
from beacon_cli.connect import call_runner
from beacon_cli.exit_codes import Exit
from beacon_cli.global_options import wants_json
from beacon_cli.output.job_table import answers_table, describe_event, job_board, job_facts
from beacon_cli.output.printing import AsJson, console
from beacon_client.errors import BeaconError
from beacon_client.runner import RunnerClient
from beacon_contracts.events import JobEvent
from beacon_contracts.jobs import JobState, JobView
from beacon_lifecycle import SystemClock, TaskSet, WakeEvent

MIN_REDRAW_S = 0.2
MAX_REDRAW_S = 2.0


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
    show = _as_json if wants_json() else _live if sys.stdout.isatty() else _lines
    try:
        final = call_runner(lambda client: show(client, job_id, after))
    except KeyboardInterrupt:
        # The live table is erased when it closes: the id must stay on the screen.
        console(stderr=True).print(f"stopped watching; {job_id} continues: beacon watch {job_id}")
        raise
    if final.status is not JobState.COMPLETED:
        raise typer.Exit(Exit.FAILED)


async def _as_json(client: RunnerClient, job_id: str, after: int) -> JobView:
    async for event in client.watch(job_id, after=after):
        typer.echo(orjson.dumps(event.model_dump(mode="json")))
    return await client.job(job_id)


async def _lines(client: RunnerClient, job_id: str, after: int) -> JobView:
    out = console()
    async for event in client.watch(job_id, after=after):
        out.print(
            f"{event.at:%H:%M:%S} {event.seq:>4} {event.type:<20} {describe_event(event)}", markup=False
        )
    return await _ending(client, job_id)


async def _live(client: RunnerClient, job_id: str, after: int) -> JobView:
    first = await client.job(job_id)
    tasks = TaskSet("watch")
    with Live(job_board(first), console=console(), auto_refresh=False, transient=True) as live:
        screen = _Screen(client, job_id, live)
        tasks.spawn("draw", screen.draw_forever())
        try:
            async for event in client.watch(job_id, after=after):
                screen.update(event)
        finally:
            await tasks.close()
    return await _ending(client, job_id)


class _Screen:
    """Draws the current state of the job after an event, and periodically, because estimates change too."""

    def __init__(self, client: RunnerClient, job_id: str, live: Live) -> None:
        self._client = client
        self._job_id = job_id
        self._live = live
        self._latest: JobEvent | None = None
        self._wakeup = WakeEvent()
        self._clock = SystemClock()

    def update(self, event: JobEvent) -> None:
        self._latest = event
        self._wakeup.set()

    async def draw_forever(self) -> None:
        while True:
            await self._wakeup.wait(MAX_REDRAW_S, self._clock)
            with suppress(BeaconError):  # the watch decides when the runner was unavailable for too long
                job = await self._client.job(self._job_id, outputs=False)
                self._live.update(job_board(job, self._latest), refresh=True)
            await self._clock.sleep(MIN_REDRAW_S)


async def _ending(client: RunnerClient, job_id: str) -> JobView:
    job = await client.job(job_id)
    out = console()
    out.print(job_facts(job))
    out.print(answers_table(job.executions))
    return job
