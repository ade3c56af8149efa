"""The bytes of files, by name, in a local directory or an object store."""

from beacon_files.content_type import OCTET_STREAM, attachment, content_type_of
from beacon_files.errors import FileStoreError, FileTooLargeError, FileUnavailableError, ObjectNotFoundError
from beacon_files.object_store import ObjectFileStore, open_store
from beacon_files.store import FileStore, ObjectInfo, StoredObject

__all__ = [
    "OCTET_STREAM",
    "FileStore",
    "FileStoreError",
    "FileTooLargeError",
    "FileUnavailableError",
    "ObjectFileStore",
    "ObjectInfo",
    "ObjectNotFoundError",
    "StoredObject",
    "attachment",
    "content_type_of",
    "open_store",
]
