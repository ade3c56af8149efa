"""Checks the address of the file store, BEACON_FILES_URL."""

from urllib.parse import urlsplit

_REMOTE = ("s3", "gs", "az")


def checked_file_store_url(url: str) -> str:
    """A directory or the address of a bucket; raises ValueError for anything else."""
    parts = urlsplit(url)
    if parts.scheme not in ("", "file", *_REMOTE):
        raise ValueError(f"is neither a directory nor an address of {', '.join(_REMOTE)}")
    if parts.scheme in _REMOTE and not parts.netloc:
        raise ValueError(f"needs a bucket: {parts.scheme}://bucket/prefix")
    return url
