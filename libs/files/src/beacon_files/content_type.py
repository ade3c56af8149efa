"""The content type of a file from its first bytes: a name or a declared type can be wrong on purpose."""

from urllib.parse import quote

import filetype

OCTET_STREAM = "application/octet-stream"
TEXT = "text/plain; charset=utf-8"
JSON = "application/json"
GLB = "model/gltf-binary"
HEAD_BYTES = 4_096

# Types whose files can contain scripts that a browser runs are stored as plain bytes.
_DOWNLOAD_ONLY = frozenset({"application/xml", "application/x-shockwave-flash", "application/pdf"})
# Detected types that clients know by another name.
_COMMON_NAMES = {"audio/x-wav": "audio/wav", "audio/x-flac": "audio/flac", "video/x-m4v": "video/mp4"}


def content_type_of(head: bytes) -> str:
    """By the first bytes: an image, sound, video, 3D model, archive, JSON or text; never HTML or SVG."""
    if head.startswith(b"glTF"):
        return GLB
    found = filetype.guess_mime(head[:HEAD_BYTES])
    if found is not None:
        found = _COMMON_NAMES.get(found, found)
        return OCTET_STREAM if found in _DOWNLOAD_ONLY else found
    return _text_type(head[:HEAD_BYTES])


def attachment(name: str) -> str:
    """A Content-Disposition with which browsers save the file and never show it."""
    return f"attachment; filename*=UTF-8''{quote(name, safe='')}"


def _text_type(head: bytes) -> str:
    try:
        text = head.decode("utf-8")
    except UnicodeDecodeError as error:
        if len(head) < HEAD_BYTES or error.start < len(head) - 3:  # not just a character that was cut off
            return OCTET_STREAM
        text = head[: error.start].decode("utf-8")
    if not text or any(not (char.isprintable() or char in "\t\r\n\f") for char in text):
        return OCTET_STREAM
    return JSON if text.lstrip()[:1] in ("{", "[") else TEXT
