"""Columns as texts: the driver asks of every element of an array whether it is an array itself.

That took longer than all the rest of a parameter; Postgres reads the texts as fast as the driver's own form.
"""

from collections.abc import Iterable, Sequence
from uuid import UUID

import orjson


def ids(many: Iterable[UUID]) -> str:
    """For `$n::text::uuid[]`; without hyphens, which both sides would spend time on."""
    return "{" + ",".join([one.hex for one in many]) + "}"


def numbers(many: Sequence[float | None]) -> str:
    """For `$n::text::real[]` and the like, by the JSON library: `str` takes several times as long."""
    return "{" + orjson.dumps(many)[1:-1].decode() + "}"
