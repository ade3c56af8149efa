"""Files of users: what is recorded of them, and the names of their objects in the file store."""

import hashlib
import hmac
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from beacon_contracts.files import OUTPUTS, output_object_name
from beacon_contracts.ids import FILE, FileId, JobId, UserId, encode_id, encode_job_id

UPLOADS = "uploads"
FOLDERS = (UPLOADS, OUTPUTS)
SIGNED_PATH = "/files"
ARCHIVE = ".zip"
MAX_NAME_LENGTH = 200


@dataclass(frozen=True, slots=True)
class Upload:
    """A file whose bytes are stored; `sha256` is in hexadecimal digits."""

    id: FileId
    user: UserId
    name: str
    content_type: str
    size: int
    sha256: str

    @property
    def object_name(self) -> str:
        return object_name(self.user, self.id)


@dataclass(frozen=True, slots=True)
class FileRecord(Upload):
    """A recorded file. An upload expires unless a job uses it; an output has the place of its execution."""

    created_at: datetime
    expires_at: datetime | None
    job: JobId | None = None
    stage: int | None = None
    ordinal: int | None = None

    @property
    def object_name(self) -> str:
        return object_name(self.user, self.id) if self.job is None else output_object_name(self.id)


class OutputPlace(NamedTuple):
    """Where an output is among those of its job."""

    stage: int
    ordinal: int
    file: FileId


BEFORE_OUTPUTS = OutputPlace(-1, 0, FileId(UUID(int=0)))


def object_name(user: UserId, file: FileId) -> str:
    return f"{UPLOADS}/{user.hex}/{file.hex}"


def file_of_object(name: str) -> FileId | None:
    """The file whose bytes an object has; None for objects that Beacon did not name."""
    folder, _, rest = name.partition("/")
    digits = rest.rpartition("/")[2]
    try:
        return FileId(UUID(hex=digits)) if folder in FOLDERS and len(digits) == 32 else None
    except ValueError:
        return None


def display_name(given: str) -> str:
    """The last part of a path, without control characters; a name is shown, never used as a path."""
    last = given.replace("\\", "/").rpartition("/")[2]
    printable = "".join(char for char in last if char.isprintable()).strip()
    return printable[:MAX_NAME_LENGTH] or "file"


def file_target(file: FileId) -> str:
    """The last part of the signed address of a file."""
    return encode_id(FILE, file)


def archive_target(job: JobId) -> str:
    """The last part of the signed address of all files of a job."""
    return f"{encode_job_id(job)}{ARCHIVE}"


def signed_path(secret: bytes, target: str, expires_unix: int) -> str:
    """A path that works without a key until `expires_unix`."""
    signature = _signature(secret, target, expires_unix)
    return f"{SIGNED_PATH}/{target}?expires={expires_unix}&signature={signature}"


def is_signed(secret: bytes, target: str, expires_unix: int, signature: str, *, now_unix: float) -> bool:
    """Whether the signature of the target is right, and the address has not expired."""
    expected = _signature(secret, target, expires_unix)
    return hmac.compare_digest(expected.encode(), signature.encode()) and now_unix < expires_unix


def _signature(secret: bytes, target: str, expires_unix: int) -> str:
    return hmac.new(secret, f"{target}.{expires_unix}".encode(), hashlib.sha256).hexdigest()
