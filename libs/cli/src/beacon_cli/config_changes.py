"""Shows the effects of a change of the configuration, asks, applies it, and waits for the routers."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from typing import Any

import orjson
import typer
from rich.markup import escape

from beacon_cli.connect import call_runner
from beacon_cli.exit_codes import Exit
from beacon_cli.global_options import wants_json
from beacon_cli.operations import confirm
from beacon_cli.output.printing import console, print_error, print_result
from beacon_client.runner import RunnerClient
from beacon_contracts.configuration import ConfigChange, ConfigDifference, RouterRevision
from beacon_lifecycle.clock import SystemClock

ROUTERS_TIMEOUT_S = 15.0
POLL_S = 0.3
_MAX_VALUE = 120

Call = Callable[[RunnerClient], Coroutine[Any, Any, ConfigChange]]


@dataclass(frozen=True, slots=True)
class Applied:
    """A change, and the revisions of the routers after it."""

    change: ConfigChange
    routers: list[RouterRevision] = field(default_factory=list)

    @property
    def refusals(self) -> list[str]:
        return [
            f"{router.url} cannot apply revision {self.change.revision} and stays on "
            f"{router.revision or 'its file'}: {'; '.join(router.errors)}"
            for router in self.routers
            if router.refused == self.change.revision
        ]

    @property
    def unanswered(self) -> list[str]:
        return [
            f"{router.url} does not run on revision {self.change.revision} yet"
            for router in self.routers
            if not _settled(router, self.change.revision)
        ]


def change_after_confirmation(question: str, preview: Call, call: Call, *, yes: bool) -> None:
    """`preview` is the dry run of `call`. Without an effect, no confirmation is needed."""
    expected = call_runner(preview, admin=True)
    if not expected.differences:
        report(Applied(expected))
        return
    if not wants_json():
        out = console(stderr=True)
        for line in described(expected):
            out.print(line)
    confirm(question, yes=yes)
    apply_change(call)


def apply_change(call: Call) -> None:
    """Exit code 1 if a router refuses the revision."""
    report(call_runner(lambda client: _applied(client, call), admin=True))


def report(applied: Applied) -> None:
    change = applied.change
    if not change.applied:
        print_result(_document(applied), f"nothing changes; the newest revision is {change.revision}")
        return
    running = [router.url for router in applied.routers if router.revision == change.revision]
    on_routers = f", applied by {', '.join(running)}" if running else ""
    restart = [f"[yellow]needs a restart:[/] {escape(key)}" for key in change.restart_needed]
    waiting = [f"[yellow]warning:[/] {escape(text)}" for text in applied.unanswered]
    print_result(_document(applied), f"revision {change.revision}{escape(on_routers)}", *restart, *waiting)
    for refusal in applied.refusals:
        print_error(refusal)
    if applied.refusals:
        raise typer.Exit(Exit.FAILED)


def described(change: ConfigChange) -> Iterable[str]:
    """A line for each changed key, for stranded work, and for what needs a restart."""
    for one in change.differences:
        yield _difference(one)
    for work in change.stranded:
        what = (
            f"{work.executions} unfinished executions of {work.model} in {work.region} would fail"
            if work.job_class is None
            else f"{work.jobs} unfinished jobs of class {work.job_class} would wait"
        )
        yield f"[bold red]stranded:[/] {escape(what)}; --force applies it all the same"
    for key in change.restart_needed:
        yield f"[yellow]needs a restart:[/] {escape(key)}"


async def _applied(client: RunnerClient, call: Call) -> Applied:
    change = await call(client)
    if not change.applied:
        return Applied(change)
    clock = SystemClock()
    until = clock.now() + ROUTERS_TIMEOUT_S
    while True:
        routers = (await client.configuration.get()).routers
        if all(_settled(router, change.revision) for router in routers) or clock.now() >= until:
            return Applied(change, routers)
        await asyncio.sleep(POLL_S)


def _settled(router: RouterRevision, revision: int) -> bool:
    return (router.revision or 0) >= revision or router.refused == revision


def _document(applied: Applied) -> dict[str, Any]:
    return {**applied.change.model_dump(mode="json"), "routers": applied.routers}


def _difference(one: ConfigDifference) -> str:
    key = escape(one.key)
    if one.before is None:
        return f"[green]+ {key}[/] {_shown(one.after)}"
    if one.after is None:
        return f"[red]- {key}[/] {_shown(one.before)}"
    return f"[yellow]~ {key}[/] {_shown(one.before)} → {_shown(one.after)}"


def _shown(value: Any) -> str:
    """Keys without a value are left out of tables."""
    if isinstance(value, dict):
        value = {key: one for key, one in value.items() if one is not None and one not in ({}, [])}
    text = orjson.dumps(value).decode()
    return escape(text if len(text) <= _MAX_VALUE else f"{text[: _MAX_VALUE - 1]}…")
