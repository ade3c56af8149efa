"""Errors of a file store. The driver's error is the cause (`__cause__`)."""


class FileStoreError(Exception):
    """An operation on the file store did not succeed."""


class FileUnavailableError(FileStoreError):
    """The store does not answer, its disk is full or it refuses the credentials; the call may be repeated."""


class FileTooLargeError(FileStoreError):
    """More bytes arrived than the caller allows; nothing is stored."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(f"the file is larger than {max_bytes} bytes, the limit")
        self.max_bytes = max_bytes


class ObjectNotFoundError(FileStoreError):
    """The store has no object of that name."""
