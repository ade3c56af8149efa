"""Arrays of ids as text parameters: asyncpg checks every element of an array for being a nested array.

That took longer than the rest of the parameter; Postgres parses the text as fast as the binary form.
"""

from collections.abc import Iterable
from uuid import UUID


def ids(many: Iterable[UUID]) -> str:
    """For `$n::text::uuid[]`; without hyphens, which are slower to write and to parse."""
    return "{" + ",".join([one.hex for one in many]) + "}"
