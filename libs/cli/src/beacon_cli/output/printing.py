"""What a command prints: a table for people, JSON for programs, errors on standard error."""

import sys
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import orjson
import typer
from pydantic import BaseModel
from rich.console import Console, RenderableType
from rich.markup import escape
from rich.table import Table

from beacon_cli.global_options import choose_json, wants_json
from beacon_client.errors import BeaconError

_PIPED_WIDTH = 240  # a pipe has no width; 80 would cut ids in two


AsJson = Annotated[
    bool, typer.Option("--json", help="Print JSON for programs.", callback=choose_json, is_eager=True)
]


def console(*, stderr: bool = False) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else _PIPED_WIDTH
    return Console(file=stream, highlight=False, width=width)


def print_json(value: Any) -> None:
    """One document, indented for a person, compact enough for `jq`."""
    document = orjson.dumps(value, default=_plain, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS)
    typer.echo(document)


def print_result(value: Any, *shown: RenderableType) -> None:
    """`value` as JSON with `--json`, otherwise the text for people."""
    if wants_json():
        print_json(value)
        return
    out = console()
    for part in shown:
        out.print(part)


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None) -> Table:
    """A table of plain text; None shows as nothing."""
    made = Table(*columns, title=title, title_justify="left", header_style="bold", box=None, pad_edge=False)
    made.columns[0].no_wrap = True
    for row in rows:
        made.add_row(*("" if cell is None else escape(str(cell)) for cell in row))
    return made


def facts(pairs: Iterable[tuple[str, object]]) -> Table:
    """Names and values, one below the other; what is None is left out."""
    made = Table.grid(padding=(0, 2))
    made.add_column(style="bold", no_wrap=True)
    for name, value in pairs:
        if value is not None:
            made.add_row(name, escape(str(value)))
    return made


def print_problem(error: BeaconError) -> None:
    """An error on standard error: the reason, the fields, and what to do."""
    if wants_json():
        typer.echo(orjson.dumps(error.problem.document(), option=orjson.OPT_INDENT_2), err=True)
        return
    out = console(stderr=True)
    out.print(f"[bold red]error:[/] {escape(error.detail)} [dim]({escape(error.code)})[/]")
    for wrong in error.problem.errors or ():
        if f"{wrong.field}: {wrong.message}" == error.detail:
            continue
        out.print(f"  [bold]{escape(wrong.field)}[/]: {escape(wrong.message)}")
    if error.what_to_do:
        out.print(f"[dim]{escape(error.what_to_do)}[/]")


def print_error(message: str) -> None:
    if wants_json():
        typer.echo(orjson.dumps({"error": message}), err=True)
    else:
        console(stderr=True).print(f"[bold red]error:[/] {escape(message)}")


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True)
    raise TypeError(f"{type(value).__name__} is not JSON")
