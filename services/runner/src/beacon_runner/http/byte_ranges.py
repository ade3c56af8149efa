"""The Range header of requests (RFC 9110, section 14)."""

import re

_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


class RangeNotSatisfiableError(Exception):
    """No byte of the file is in the range."""

    def __init__(self, size: int) -> None:
        super().__init__(f"the file has {size} bytes")
        self.size = size


def read_range(header: str | None, size: int) -> tuple[int, int] | None:
    """The first byte and the one after the last; None if the whole file is to be sent.

    Headers that are malformed or name several ranges are ignored, as the RFC allows.
    """
    found = _RANGE.fullmatch(header.strip()) if header else None
    if found is None or found.group(0) == "bytes=-":
        return None
    first, last = found.groups()
    if not first:  # the last bytes
        start, end = max(0, size - int(last)), size
    else:
        start, end = int(first), min(size, int(last) + 1 if last else size)
        if last and int(last) < start:
            return None
    if start >= end:
        raise RangeNotSatisfiableError(size)
    return start, end
