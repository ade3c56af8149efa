"""Columns as texts: the driver asks of every element of an array whether it is an array itself.

That took longer than all the rest of a parameter; Postgres reads the texts as fast as the driver's own form.
"""

from collections.abc import Iterable


def array(values: Iterable[object]) -> str:
    """For `$n::text::uuid[]` and the like: values whose text needs no quotes, such as ids and numbers."""
    return "{" + ",".join(map(str, values)) + "}"
