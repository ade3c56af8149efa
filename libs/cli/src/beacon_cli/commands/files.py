"""`beacon files`: upload, list, download and delete files."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from beacon_cli.attachments import upload as upload_file
from beacon_cli.connect import call_runner
from beacon_cli.errors import InputError
from beacon_cli.output.formatting import ago, file_size
from beacon_cli.output.printing import AsJson, facts, print_result, table
from beacon_cli.output.transfers import transfer_bar
from beacon_client.runner import RunnerClient
from beacon_contracts.files import FileView

files = typer.Typer(help="Upload, list, download and delete files.", no_args_is_help=True)

FileId = Annotated[str, typer.Argument(metavar="FILE", help="The id of a file (file_…).")]
FileIds = Annotated[list[str], typer.Argument(metavar="FILE...", help="The ids of files (file_…).")]
STANDARD_INPUT = Path("-")


@files.command("upload")
def upload(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Local files; - is standard input.")],
    name: Annotated[str | None, typer.Option(help="Its name, if there is one file.")] = None,
    _json: AsJson = False,
) -> None:
    """Upload files; they are deleted after a day unless a job uses them."""
    if name is not None and len(paths) > 1:
        raise InputError("--name is for one file")
    missing = [str(path) for path in paths if path != STANDARD_INPUT and not path.is_file()]
    if missing:
        raise InputError(f"no such file: {', '.join(missing)}")

    async def work(client: RunnerClient) -> list[FileView]:
        return [await _upload(client, path, name) for path in paths]

    stored = call_runner(work)
    if len(stored) == 1:
        _print(stored[0])
    else:
        _print_table(stored)


async def _upload(client: RunnerClient, path: Path, name: str | None) -> FileView:
    if path == STANDARD_INPUT:
        return await client.files.upload(sys.stdin.buffer, name=name or "stdin")
    return await upload_file(client, path, name)


@files.command("list")
def show_all(
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Maximum number.")] = 100,
    _json: AsJson = False,
) -> None:
    """List your files, newest first."""

    async def work(client: RunnerClient) -> list[FileView]:
        found: list[FileView] = []
        pages = client.files.list()
        async for file in pages:
            found.append(file)
            if len(found) == limit:
                break
        await pages.aclose()
        return found

    _print_table(call_runner(work))


@files.command("show")
def show(file: FileId, _json: AsJson = False) -> None:
    """Show name, type, size and checksum of a file."""
    _print(call_runner(lambda client: client.files.get(file)))


@files.command("download")
def download(
    file: FileId,
    target: Annotated[
        Path | None, typer.Option("--to", "-o", help="Path or folder to write; default: its name.")
    ] = None,
    _json: AsJson = False,
) -> None:
    """Download a file. An interrupted download continues where it ended."""

    async def work(client: RunnerClient) -> tuple[Path, int]:
        path = target
        if path is None or path.is_dir():
            named = Path((await client.files.get(file)).name).name.lstrip(".")  # not hidden, and not ".."
            path = (path or Path()) / (named or file)
        with transfer_bar(path.name) as progress:
            return path, await client.files.download(file, path, progress=progress)

    path, size = call_runner(work)
    print_result({"path": str(path), "bytes": size}, f"{path} ({file_size(size)})")


@files.command("url")
def url(file: FileId, _json: AsJson = False) -> None:
    """Print an address of a file that works without a key for a few minutes."""

    async def work(client: RunnerClient) -> dict[str, str]:
        signed = await client.files.url(file)
        return {"url": f"{client.base_url}{signed.url}", "expires_at": signed.expires_at.isoformat()}

    found = call_runner(work)
    print_result(found, found["url"])


@files.command("delete")
def delete(file_ids: FileIds, _json: AsJson = False) -> None:
    """Delete files."""

    async def work(client: RunnerClient) -> None:
        for file in file_ids:
            await client.files.delete(file)

    call_runner(work)
    print_result({"deleted": file_ids}, *(f"deleted {file}" for file in file_ids))


def _print_table(found: list[FileView]) -> None:
    rows = [
        (file.id, file.name, file.content_type, file_size(file.bytes), ago(file.created_at)) for file in found
    ]
    print_result(found, table(("file", "name", "type", "size", "created"), rows))


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
                ("job", file.job_id),
                ("expires", file.expires_at),
            ]
        ),
    )
