"""The live configuration: `beacon config show`, `diff`, `apply`, `history` and `rollback`."""

import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from beacon_cli.config_changes import change_after_confirmation, described
from beacon_cli.connect import call_runner
from beacon_cli.errors import InputError
from beacon_cli.exit_codes import Exit
from beacon_cli.global_options import wants_json
from beacon_cli.operations import Yes
from beacon_cli.output.formatting import ago
from beacon_cli.output.printing import AsJson, print_result, table
from beacon_client.credentials import find_credentials
from beacon_client.runner import RunnerClient
from beacon_config import ConfigError, parse_document, read_document
from beacon_contracts.configuration import ConfigChange, ConfigDocumentView, ConfigRevisionView, ConfigView

DEFAULT = Path("config/beacon.toml")

FilePath = Annotated[
    Path | None,
    typer.Argument(
        envvar="BEACON_CONFIG",
        help=f"TOML, or JSON if its name ends in .json [default: that of `beacon up`, else {DEFAULT}].",
        show_default=False,
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Also if it strands unfinished work.")]
Comment = Annotated[str, typer.Option("--comment", "-m", help="Shown in the history.")]


def show(
    revision: Annotated[
        int | None, typer.Argument(min=1, help="[default: the newest]", show_default=False)
    ] = None,
    _json: AsJson = False,
) -> None:
    """Print the configuration that applies, or an earlier revision, as TOML."""

    async def work(client: RunnerClient) -> ConfigDocumentView:
        return await (
            client.configuration.get() if revision is None else client.configuration.revision(revision)
        )

    found = call_runner(work, admin=True)
    if wants_json():
        print_result(found)
    else:
        typer.echo(_toml(found.document), nl=False)


def diff(path: FilePath = None, _json: AsJson = False) -> None:
    """Compare a file with the configuration that applies. Exit code 1 if they differ."""
    document = _read(path or _default_path())
    change = call_runner(lambda client: _preview(client, document), admin=True)
    print_result(change, *described(change))
    if change.differences:
        raise typer.Exit(Exit.FAILED)


def apply(
    path: FilePath = None,
    *,
    comment: Comment = "",
    force: Force = False,
    yes: Yes = False,
    _json: AsJson = False,
) -> None:
    """Make a file the newest revision. Every process applies it within seconds, without a restart."""
    chosen = path or _default_path()
    document = _read(chosen)
    newest = 0

    async def preview(client: RunnerClient) -> ConfigChange:
        nonlocal newest
        change = await _preview(client, document)
        newest = change.revision
        return change

    change_after_confirmation(
        f"Apply {chosen}?",
        preview,
        lambda client: client.configuration.replace(
            document, revision=newest, comment=comment or chosen.name, force=force
        ),
        yes=yes,
    )


def history(
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="How many.")] = 20,
    _json: AsJson = False,
) -> None:
    """List who changed the configuration, newest first, and what the routers run on."""

    async def work(client: RunnerClient) -> tuple[ConfigView, list[ConfigRevisionView]]:
        found: list[ConfigRevisionView] = []
        async for revision in client.configuration.revisions():
            found.append(revision)
            if len(found) == limit:
                break
        return await client.configuration.get(), found

    newest, found = call_runner(work, admin=True)
    rows = [(one.revision, ago(one.created_at), one.actor.name, one.comment) for one in found]
    routers = [(one.url, one.revision or "its file", "; ".join(one.errors)) for one in newest.routers]
    print_result(
        {"revisions": found, "routers": newest.routers},
        table(("revision", "made", "by", "comment"), rows),
        "",
        table(("router", "runs on", ""), routers),
    )


def rollback(
    revision: Annotated[int, typer.Argument(min=1, help="A number from `beacon config history`.")],
    *,
    comment: Comment = "",
    force: Force = False,
    yes: Yes = False,
    _json: AsJson = False,
) -> None:
    """Apply an earlier revision again, as a new one."""
    change_after_confirmation(
        f"Roll back to revision {revision}?",
        lambda client: client.configuration.roll_back(revision, dry_run=True),
        lambda client: client.configuration.roll_back(revision, comment=comment, force=force),
        yes=yes,
    )


async def _preview(client: RunnerClient, document: dict[str, Any]) -> ConfigChange:
    newest = await client.configuration.get()
    return await client.configuration.replace(document, revision=newest.revision, dry_run=True)


def _default_path() -> Path:
    """The file that the running system has read."""
    return Path(find_credentials(os.environ).config_path or DEFAULT)


def _read(path: Path) -> dict[str, Any]:
    """The document of a file; each wrong key is reported without a request."""
    try:
        document = _json_of(path) if path.suffix == ".json" else read_document(path)
        parse_document(document, {})
    except ConfigError as error:
        raise InputError("\n".join(f"{path}: {line}" for line in str(error).splitlines())) from error
    return document


def _json_of(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: {error}") from error
    if not isinstance(document, dict):
        raise InputError(f"{path} is not a JSON object")
    return document


def _toml(document: dict[str, Any]) -> str:
    import tomli_w  # noqa: PLC0415 - only for this output

    return tomli_w.dumps(_without_nulls(document))


def _without_nulls(value: Any) -> Any:
    """TOML has no null: such keys have their defaults."""
    if isinstance(value, dict):
        return {key: _without_nulls(one) for key, one in value.items() if one is not None}
    if isinstance(value, list):
        return [_without_nulls(one) for one in value]
    return value
