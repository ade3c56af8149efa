"""`beacon backends` and the pauses of models, in the running system. Needs an administrator's key."""

import asyncio
from typing import Annotated, Any

import typer

from beacon_cli.config_changes import apply_change, change_after_confirmation
from beacon_cli.connect import call_runner
from beacon_cli.errors import InputError, MissingError
from beacon_cli.job_flags import pairs
from beacon_cli.operations import Yes
from beacon_cli.output.printing import AsJson, print_result, table
from beacon_client.runner import RunnerClient
from beacon_contracts.configuration import ConfiguredBackend, ConfiguredBackends

POLL_S = 0.5

backends = typer.Typer(help="Show, add, change, drain, resume and remove backends (administrators).")

Name = Annotated[str, typer.Argument(metavar="BACKEND", help="The name of a backend.")]
Url = Annotated[str | None, typer.Option(help="Its address.")]
Region = Annotated[str | None, typer.Option("--region", "-r", help="Where it is.")]
Dialect = Annotated[str | None, typer.Option(help="Its wire format: openai, http, async, comfyui, …")]
Models = Annotated[
    list[str] | None,
    typer.Option("--model", "-m", help="All that it serves, in place of those before; repeatable."),
]
Slots = Annotated[int | None, typer.Option(min=0, help="Requests that it runs at the same time.")]
Group = Annotated[str | None, typer.Option(help="The group whose cap it shares.")]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Any other key, such as preset=runpod; values are JSON or text. Repeatable.",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Also if it strands unfinished work.")]


@backends.callback(invoke_without_command=True)
def show(context: typer.Context, _json: AsJson = False) -> None:
    """Show the configured backends, with their runs and states at the routers."""
    if context.invoked_subcommand is None:
        _print(call_runner(lambda client: client.configuration.backends(), admin=True))


@backends.command("add")
def add(
    name: Name,
    *,
    url: Annotated[str, typer.Option(help="Its address.")],
    dialect: Annotated[str, typer.Option(help="Its wire format: openai, http, async, comfyui, …")],
    model: Annotated[list[str], typer.Option("--model", "-m", help="What it serves; repeatable.")],
    region: Region = None,
    slots: Slots = None,
    group: Group = None,
    settings: Settings = None,
    force: Force = False,
    yes: Yes = False,
    _json: AsJson = False,
) -> None:
    """Add a backend; the routers use it within seconds. New regions and models come with it."""
    given = _settings(
        settings, url=url, dialect=dialect, models=model, region=region, slots=slots, group=group
    )
    change_after_confirmation(
        f"Add the backend {name}?",
        lambda client: client.configuration.add_backend(name, given, dry_run=True),
        lambda client: client.configuration.add_backend(name, given, force=force),
        yes=yes,
    )


@backends.command("change")
def change(
    name: Name,
    *,
    url: Url = None,
    dialect: Dialect = None,
    model: Models = None,
    region: Region = None,
    slots: Slots = None,
    group: Group = None,
    settings: Settings = None,
    unset: Annotated[
        list[str] | None, typer.Option(metavar="KEY", help="Restore the default of a key; repeatable.")
    ] = None,
    force: Force = False,
    yes: Yes = False,
    _json: AsJson = False,
) -> None:
    """Change some keys of a backend. Running requests end as they began; waiting ones keep their places."""
    given = _settings(
        settings, url=url, dialect=dialect, models=model, region=region, slots=slots, group=group
    )
    given |= dict.fromkeys(unset or ())
    if not given:
        raise InputError("give at least one key to change (see --help)")
    change_after_confirmation(
        f"Change the backend {name}?",
        lambda client: client.configuration.change_backend(name, given, dry_run=True),
        lambda client: client.configuration.change_backend(name, given, force=force),
        yes=yes,
    )


@backends.command("drain")
def drain(
    name: Name,
    *,
    wait: Annotated[bool, typer.Option("--wait", "-w", help="Return when its last run has ended.")] = False,
    _json: AsJson = False,
) -> None:
    """Let the running requests of a backend end, and start none."""
    apply_change(lambda client: client.configuration.drain_backend(name))
    if wait:
        call_runner(lambda client: _drained(client, name), admin=True)
        if not _json:
            print_result(None, f"{name} is drained")


@backends.command("resume")
def resume(name: Name, _json: AsJson = False) -> None:
    """End a drain."""
    apply_change(lambda client: client.configuration.resume_backend(name))


@backends.command("remove")
def remove(name: Name, *, force: Force = False, yes: Yes = False, _json: AsJson = False) -> None:
    """Remove a backend, with the models and regions that no other one has. Its running requests end."""
    change_after_confirmation(
        f"Remove the backend {name}?",
        lambda client: client.configuration.remove_backend(name, dry_run=True),
        lambda client: client.configuration.remove_backend(name, force=force),
        yes=yes,
    )


async def _drained(client: RunnerClient, name: str) -> None:
    while True:
        found = await client.configuration.backends()
        backend = next((one for one in found.backends if one.name == name), None)
        if backend is None or not backend.drain:
            raise MissingError(f"{name} was removed or resumed meanwhile")
        if backend.state == "drained":
            return
        await asyncio.sleep(POLL_S)


def _settings(texts: list[str] | None, **flags: Any) -> dict[str, Any]:
    return {key: value for key, value in flags.items() if value is not None} | pairs(texts)


def _print(found: ConfiguredBackends) -> None:
    columns = ("backend", "region", "dialect", "address", "models", "busy", "state")
    print_result(found, table(columns, [_row(one) for one in found.backends]), f"revision {found.revision}")


def _row(backend: ConfiguredBackend) -> tuple[object, ...]:
    state = backend.state if backend.cause is None else f"{backend.state}: {backend.cause}"
    return (
        backend.name,
        backend.region,
        backend.dialect,
        "simulated" if backend.simulated else backend.url,
        ", ".join(backend.models),
        f"{backend.busy}/{backend.slots}",
        "healthy" if state == "closed" else state,
    )
