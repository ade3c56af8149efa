"""Files of users: what is recorded of them, and the names of their objects in the file store."""

import hashlib
import hmac
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from beacon_contracts.ids import FileId, UserId

UPLOADS = "uploads"
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
    """A recorded file. It expires unless something uses it."""

    created_at: datetime
    expires_at: datetime | None


def object_name(user: UserId, file: FileId) -> str:
    return f"{UPLOADS}/{user.hex}/{file.hex}"


def file_of_object(name: str) -> FileId | None:
    """The file whose bytes an object has; None for objects that Beacon did not name."""
    folder, _, rest = name.partition("/")
    digits = rest.rpartition("/")[2]
    try:
        return FileId(UUID(hex=digits)) if folder == UPLOADS and len(digits) == 32 else None
    except ValueError:
        return None


def display_name(given: str) -> str:
    """The last part of a path, without control characters; a name is shown, never used as a path."""
    last = given.replace("\\", "/").rpartition("/")[2]
    printable = "".join(char for char in last if char.isprintable()).strip()
    return printable[:MAX_NAME_LENGTH] or "file"


def sign(secret: bytes, file: FileId, expires_unix: int) -> str:
    """The signature of an address that works without a key until `expires_unix`."""
    return hmac.new(secret, f"{file.hex}.{expires_unix}".encode(), hashlib.sha256).hexdigest()


def is_signed(secret: bytes, file: FileId, expires_unix: int, signature: str, *, now_unix: float) -> bool:
    """Whether the signature is right and the address has not expired."""
    expected = sign(secret, file, expires_unix)
    return hmac.compare_digest(expected.encode(), signature.encode()) and now_unix < expires_unix
