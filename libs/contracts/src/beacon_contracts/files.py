"""Files: bytes with a content type that belong to a user."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field

from beacon_contracts.ids import FileId
from beacon_contracts.model import RequestModel, ResponseModel, Text

OUTPUTS = "outputs"
"""The folder of the file store that has the outputs of jobs."""


class FileView(ResponseModel):
    """`content_type` is recognised from the content; `url` is the path of the bytes.

    `job_id` is the job that made an output; null for uploads.
    """

    id: str
    name: str
    content_type: str
    bytes: int
    sha256: str
    created_at: datetime
    expires_at: datetime | None = None
    url: str
    job_id: str | None = None


class FilePage(ResponseModel):
    """Newest first."""

    files: list[FileView]
    next_cursor: str | None = None


class FileUrl(ResponseModel):
    """An address that works without a key until it expires."""

    url: str
    expires_at: datetime


class InputFile(RequestModel):
    """A file that an input names by `{"file": id}`: where the router finds its bytes.

    `object` is its name in the file store; `url` an address that works without a key, for backends that
    fetch files themselves.
    """

    id: Annotated[Text, Field(max_length=80)]
    object: Annotated[Text, Field(min_length=1, max_length=400)]
    name: Annotated[Text, Field(max_length=200)]
    content_type: Annotated[Text, Field(max_length=200)]
    bytes: Annotated[int, Field(strict=True, ge=0)]
    url: Annotated[Text, Field(max_length=4_000)] | None = None


class OutputFile(ResponseModel):
    """A file of an output that the router has stored. Its row is written together with the result."""

    id: str
    object: str
    name: str
    content_type: str
    bytes: int
    sha256: str


def content_path(file_id: str) -> str:
    """The path of a file's bytes at the runner's API."""
    return f"/api/v1/files/{file_id}/content"


def output_object_name(file: FileId) -> str:
    """The name of an output's bytes in the file store. The id is enough: no two runs share one."""
    return f"{OUTPUTS}/{file.hex[-2:]}/{file.hex}"


def output_reference(file: OutputFile) -> dict[str, Any]:
    """The object that replaces the bytes in an output. In an input it names the same file."""
    return {
        "file": file.id,
        "content_type": file.content_type,
        "bytes": file.bytes,
        "sha256": file.sha256,
        "url": content_path(file.id),
    }
