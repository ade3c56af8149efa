"""`beacon queues`: depth, lanes, leases; pause and resume. Needs an administrator's key."""

from typing import Annotated

import typer
from rich.console import RenderableType

from beacon_cli.connect import call_runner
from beacon_cli.output.formatting import seconds
from beacon_cli.output.printing import AsJson, facts, print_result, table
from beacon_client.runner import RunnerClient
from beacon_contracts.queue_admin import RuntimeStats
from beacon_contracts.tiers import JobClass

queues = typer.Typer(help="Show, pause and resume the runner's queues (administrators).")

Class = Annotated[JobClass, typer.Argument(metavar="CLASS", help="high, medium or low.")]


@queues.callback(invoke_without_command=True)
def show(context: typer.Context, _json: AsJson = False) -> None:
    """Show depth of main, retry and dead, classes, lanes, leases and outbox lag."""
    if context.invoked_subcommand is None:
        _print(call_runner(lambda client: client.admin.stats(), admin=True))


@queues.command("pause")
def pause(job_class: Class, _json: AsJson = False) -> None:
    """Stop consumption of a class: its jobs are accepted and wait."""
    _print(call_runner(lambda client: _then_stats(client, job_class, paused=True), admin=True))


@queues.command("resume")
def resume(job_class: Class, _json: AsJson = False) -> None:
    """Start consumption of a class again."""
    _print(call_runner(lambda client: _then_stats(client, job_class, paused=False), admin=True))


@queues.command("reset-lanes")
def reset_lanes(_json: AsJson = False) -> None:
    """Recount the lane counters from the messages."""

    async def work(client: RunnerClient) -> RuntimeStats:
        await client.admin.reset_lanes()
        return await client.admin.stats()

    _print(call_runner(work, admin=True))


async def _then_stats(client: RunnerClient, job_class: JobClass, *, paused: bool) -> RuntimeStats:
    await (client.admin.pause(job_class) if paused else client.admin.resume(job_class))
    return await client.admin.stats()


def _print(stats: RuntimeStats) -> None:
    outbox = stats.outbox
    totals = facts(
        [
            ("waiting", stats.main),
            ("to retry", stats.retry),
            ("dead", stats.dead),
            ("leases", stats.leases),
            ("outbox", f"{outbox.pending} ({seconds(outbox.lag_s)} behind)" if outbox else None),
            ("oldest waits", seconds(stats.oldest_age_s) or None),
        ]
    )
    classes = [(one.name, one.waiting, one.front, "paused" if one.paused else "") for one in stats.classes]
    lanes = [(one.lane, one.job_class, one.pending, one.running) for one in stats.lanes]
    parts: list[RenderableType] = ["", table(("lane", "class", "pending", "running"), lanes)] if lanes else []
    print_result(stats, totals, "", table(("class", "waiting", "front", ""), classes), *parts)
