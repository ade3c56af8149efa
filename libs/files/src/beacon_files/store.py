"""The interface of a file store."""

from collections.abc import AsyncIterable, AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object that was written: its size, checksum and content type were determined meanwhile."""

    size: int
    sha256: str
    content_type: str


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """An object of the store, without its bytes."""

    name: str
    size: int
    modified_at: datetime


class FileStore(Protocol):
    """Objects are written whole or not at all, and never changed afterwards. Raises `FileStoreError`."""

    async def put(
        self,
        name: str,
        chunks: AsyncIterable[bytes],
        *,
        max_bytes: int,
        file_name: Callable[[str], str] | None = None,
    ) -> StoredObject:
        """Store the chunks in bounded memory; an existing object of that name is replaced.

        `file_name`: from the content type, the name that browsers save it by, at an address of the store.
        """
        ...

    def get(self, name: str, *, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        """The bytes from `start` up to `end`, in chunks."""
        ...

    async def delete(self, names: Sequence[str]) -> None:
        """Remove the objects; names that do not exist are ignored."""
        ...

    def list(self, prefix: str) -> AsyncIterator[Sequence[ObjectInfo]]:
        """All objects whose name begins with the folder `prefix`, in batches."""
        ...

    async def remove_incomplete(self, prefix: str, before: datetime) -> int:
        """Remove the parts of uploads below the folder `prefix` that were last written before that moment.

        A killed process leaves them. Object stores remove them by a lifecycle rule of the bucket instead.
        """
        ...

    async def signed_url(self, name: str, *, expires_s: int) -> str | None:
        """An address of the store itself that works without credentials; None if it has none."""
        ...
