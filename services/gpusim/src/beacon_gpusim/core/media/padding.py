"""Padding of any length without that much memory: one block, repeated."""

from functools import cache
from random import Random

_BLOCK_BYTES = 65_536


@cache
def _block() -> bytes:
    """Bytes that do not compress."""
    return Random(0).randbytes(_BLOCK_BYTES)  # noqa: S311 - not a secret


def padding(size: int) -> list[bytes]:
    """Parts of `size` bytes together; all but the last are the same object."""
    block = _block()
    whole, rest = divmod(size, _BLOCK_BYTES)
    return [block] * whole + ([block[:rest]] if rest else [])
