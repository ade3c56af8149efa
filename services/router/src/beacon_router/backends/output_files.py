"""The files of one answer: bytes go to the file store, references take their place in the output."""

import asyncio
import mimetypes
from collections.abc import AsyncIterable
from contextlib import suppress
from typing import Any

import structlog

from beacon_contracts.files import OutputFile, output_object_name, output_reference
from beacon_contracts.ids import FILE, FileId, encode_id, new_uuid
from beacon_files import FileStore, FileStoreError, FileTooLargeError
from beacon_files.content_type import GLB
from beacon_router.backends.errors import bad_payload, file_store_unavailable, output_too_large

log = structlog.get_logger(__name__)

MAX_FILES = 256
MAX_NAME_LENGTH = 100
DELETE_TIMEOUT_S = 5.0
_EXTENSIONS = {GLB: ".glb", "audio/wav": ".wav", "image/webp": ".webp", "application/octet-stream": ".bin"}


class OutputFiles:
    """Objects without a record are removed later, so a killed process leaves nothing for good."""

    def __init__(self, store: FileStore, max_bytes: int) -> None:
        self._store = store
        self._max_bytes = max_bytes
        self._objects: list[str] = []
        self._saved: list[OutputFile] = []

    async def save(self, chunks: AsyncIterable[bytes], *, name: str | None = None) -> dict[str, Any]:
        """Stream the bytes into the store; the reference of the new file."""
        if len(self._objects) >= MAX_FILES:
            raise bad_payload(f"the response has more than {MAX_FILES} files")
        file = FileId(new_uuid())
        location = output_object_name(file)
        self._objects.append(location)

        def file_name(content_type: str) -> str:
            return _display_name(name) or f"output{_extension(content_type)}"

        try:
            stored = await self._store.put(location, chunks, max_bytes=self._max_bytes, file_name=file_name)
        except FileTooLargeError as error:
            raise output_too_large(self._max_bytes) from error
        except FileStoreError as error:
            log.warning("output_not_stored", reason=str(error))
            raise file_store_unavailable() from error
        saved = OutputFile(
            id=encode_id(FILE, file),
            object=location,
            name=file_name(stored.content_type),
            content_type=stored.content_type,
            bytes=stored.size,
            sha256=stored.sha256,
        )
        self._saved.append(saved)
        return output_reference(saved)

    async def keep_only(self, output: bytes) -> tuple[OutputFile, ...]:
        """The files that the output refers to; the others are deleted."""
        unused = [file for file in self._saved if file.id.encode() not in output]
        if unused:
            names = {file.object for file in unused}
            self._saved = [file for file in self._saved if file.object not in names]
            self._objects = [name for name in self._objects if name not in names]
            await self._delete(list(names))
        return tuple(self._saved)

    async def discard(self) -> None:
        await self._delete(self._objects)

    async def _delete(self, names: list[str]) -> None:
        """The cleanup of objects without a record removes what this leaves."""
        if names:
            with suppress(FileStoreError, TimeoutError):
                async with asyncio.timeout(DELETE_TIMEOUT_S):
                    await self._store.delete(names)


def _display_name(given: str | None) -> str:
    """The last part of a path, without control characters: it is shown, never used as a path."""
    last = (given or "").replace("\\", "/").rpartition("/")[2]
    return "".join(char for char in last if char.isprintable()).strip()[-MAX_NAME_LENGTH:]


def _extension(content_type: str) -> str:
    kind = content_type.partition(";")[0]
    return _EXTENSIONS.get(kind) or mimetypes.guess_extension(kind) or ".bin"
