"""Files: bytes with a content type that belong to a user."""

from datetime import datetime

from beacon_contracts.model import ResponseModel


class FileView(ResponseModel):
    """`content_type` is recognised from the content; `url` is the path of the bytes."""

    id: str
    name: str
    content_type: str
    bytes: int
    sha256: str
    created_at: datetime
    expires_at: datetime | None = None
    url: str


class FilePage(ResponseModel):
    """Newest first."""

    files: list[FileView]
    next_cursor: str | None = None


class FileUrl(ResponseModel):
    """An address that works without a key until it expires."""

    url: str
    expires_at: datetime
