"""`beacon config`: validates the configuration file, describes its keys, and changes the running system."""

import os
from dataclasses import asdict
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from beacon_cli.commands import live_config
from beacon_cli.commands.live_config import DEFAULT
from beacon_cli.exit_codes import Exit
from beacon_cli.global_options import wants_json
from beacon_cli.output.printing import AsJson, facts, print_error, print_json, print_result
from beacon_config import BeaconConfig, ConfigError, load_config, read_document
from beacon_config.reference import Key, find, known_keys
from beacon_config.secrets import literal_secrets
from beacon_config.topology import missing_variables

config = typer.Typer(no_args_is_help=True)


@config.callback()
def _group() -> None:
    """Check a configuration file, describe its keys, and apply it to the running system."""


for _command in (
    live_config.show,
    live_config.diff,
    live_config.apply,
    live_config.history,
    live_config.rollback,
):
    config.command()(_command)


@config.command("check")
def check(
    path: Annotated[
        Path | None,
        typer.Argument(
            envvar="BEACON_CONFIG", help=f"The file to check [default: {DEFAULT}].", show_default=False
        ),
    ] = None,
    _json: AsJson = False,
) -> None:
    """Validate a file; each error is shown with its key and reason. Exit code 1 if there are errors."""
    chosen = path or DEFAULT
    try:
        loaded = load_config(chosen, os.environ)
        literal = literal_secrets(read_document(chosen))
    except ConfigError as error:
        _refuse(chosen, str(error).splitlines())
        raise typer.Exit(Exit.FAILED) from error
    if literal:
        _refuse(chosen, [f"{chosen}: {key}: {reason}" for key, reason in literal])
        raise typer.Exit(Exit.FAILED)
    warnings = list(_warnings(loaded))
    summary = _summary(chosen, loaded)
    print_result(
        {"ok": True, **summary, "warnings": warnings},
        f"[green]ok[/] {escape(str(chosen))}",
        facts((name, ", ".join(value)) for name, value in summary.items() if isinstance(value, list)),
        *(f"[yellow]warning:[/] {escape(warning)}" for warning in warnings),
    )


@config.command("explain")
def explain(
    key: Annotated[
        str, typer.Argument(help="A key or a section: router.attempts, backends.headers, strict.")
    ],
    _json: AsJson = False,
) -> None:
    """Describe a key: its meaning, type and default. Exit code 1 if there is none of this name."""
    found = find(key)
    if not found:
        similar = get_close_matches(key, known_keys(), n=3, cutoff=0.5)
        hint = f"; did you mean {', '.join(similar)}?" if similar else ""
        print_error(f"there is no key {key!r}{hint}")
        raise typer.Exit(Exit.FAILED)
    rows = [
        (f"{section.name}.{known.name}", known)
        for section, one in found
        for known in ([one] if one is not None else section.keys)
    ]
    print_result(
        [{"key": name, **asdict(known)} for name, known in rows],
        *(escape(section.meaning) for section, one in found if one is None),
        *(_described(name, known) for name, known in rows),
    )


def _described(name: str, key: Key) -> str:
    default = "required" if key.default is None else f"default {key.default}"
    facts = f"{key.type}, {default}"
    return f"[bold]{escape(name)}[/]  [dim]{escape(facts)}[/]\n    {escape(key.meaning)}"


def _refuse(path: Path, mistakes: list[str]) -> None:
    if wants_json():
        print_json({"ok": False, "path": str(path), "errors": mistakes})
    else:
        for mistake in mistakes:
            print_error(mistake)


def _summary(path: Path, loaded: BeaconConfig) -> dict[str, Any]:
    return {
        "path": str(path),
        "regions": list(loaded.regions),
        "backends": [f"{name} ({backend.region})" for name, backend in loaded.backends.items()],
        "models": list(loaded.models),
        "features": list(loaded.features),
        "pools": [f"{name} ({pool.slots})" for name, pool in loaded.pools.items()],
    }


def _warnings(loaded: BeaconConfig) -> list[str]:
    return missing_variables(loaded.backends, os.environ)
