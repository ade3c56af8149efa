"""Files of a job's input: `image=@photo.jpg` is uploaded, `image=file_…` names one that exists."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from beacon_cli.errors import InputError
from beacon_cli.output.transfers import transfer_bar
from beacon_client.runner import RunnerClient
from beacon_contracts.files import FileView

Attachments = Mapping[str, Path | str]


def parse_attachments(texts: Sequence[str] | None) -> Attachments:
    """By the name of the input's field: a local path, or the id of a file."""
    found: dict[str, Path | str] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals or not name or not (value.startswith("file_") or value.removeprefix("@")):
            raise InputError(f"{text!r} is not of the form name=@path or name=file_…")
        if value.startswith("file_"):
            found[name] = value
            continue
        path = Path(value.removeprefix("@")).expanduser()
        if not value.startswith("@") or not path.is_file():
            raise InputError(f"--file {name}: there is no file {str(path)!r}; write {name}=@path")
        found[name] = path
    return found


async def attach(client: RunnerClient, job: dict[str, Any], files: Attachments) -> dict[str, Any]:
    """The job with a reference to each file in its input, after the upload of local ones."""
    if not files:
        return job
    if job.get("kind") == "matrix":
        raise InputError("--file needs a generation or a pipeline: the questions of a matrix are text")
    references: dict[str, Any] = {}
    for name, source in files.items():
        file_id = source if isinstance(source, str) else (await upload(client, source)).id
        references[name] = {"file": file_id}
    return {**job, "input": {**(job.get("input") or {}), **references}}


async def upload(client: RunnerClient, path: Path, name: str | None = None) -> FileView:
    with transfer_bar(path.name) as progress:
        return await client.files.upload(path, name=name, progress=progress)
