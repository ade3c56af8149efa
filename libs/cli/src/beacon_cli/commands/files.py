"""`beacon files`: upload, list, download and delete files."""

from pathlib import Path
from typing import Annotated

import typer

from beacon_cli.connect import ask
from beacon_cli.output.formatting import file_size
from beacon_cli.output.printing import AsJson, facts, print_result, table
from beacon_client.runner import RunnerClient
from beacon_contracts.files import FileView

files = typer.Typer(help="Upload, list, download and delete files.", no_args_is_help=True)

FileId = Annotated[str, typer.Argument(metavar="FILE", help="The id of a file (file_…).")]
Source = Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="The local file.")]


@files.command("upload")
def upload(path: Source, _json: AsJson = False) -> None:
    """Upload a file; it is deleted after a day unless something uses it."""
    _print(ask(lambda client: client.files.upload(path)))


@files.command("list")
def show_all(_json: AsJson = False) -> None:
    """List your files, newest first."""

    async def work(client: RunnerClient) -> list[FileView]:
        return [file async for file in client.files.list()]

    found = ask(work)
    rows = [(file.id, file.name, file.content_type, file_size(file.bytes)) for file in found]
    print_result(found, table(("file", "name", "type", "size"), rows))


@files.command("show")
def show(file: FileId, _json: AsJson = False) -> None:
    """Show name, type, size and checksum of a file."""
    _print(ask(lambda client: client.files.get(file)))


@files.command("download")
def download(
    file: FileId,
    target: Annotated[
        Path | None, typer.Option("--to", "-o", help="Path to write; default: its name.")
    ] = None,
    _json: AsJson = False,
) -> None:
    """Download a file."""

    async def work(client: RunnerClient) -> tuple[Path, int]:
        path = target or Path(Path((await client.files.get(file)).name).name)
        return path, await client.files.download(file, path)

    path, size = ask(work)
    print_result({"path": str(path), "bytes": size}, f"{path} ({file_size(size)})")


@files.command("delete")
def delete(file: FileId, _json: AsJson = False) -> None:
    """Delete a file."""
    ask(lambda client: client.files.delete(file))
    print_result({"deleted": file}, f"deleted {file}")


def _print(file: FileView) -> None:
    print_result(
        file,
        facts(
            [
                ("file", file.id),
                ("name", file.name),
                ("type", file.content_type),
                ("size", file_size(file.bytes)),
                ("sha256", file.sha256),
                ("expires", file.expires_at),
            ]
        ),
    )
