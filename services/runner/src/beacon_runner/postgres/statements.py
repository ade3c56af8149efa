"""Reads `.sql` files of named statements: a `-- name:` line, a line that says what it is for, the SQL."""

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


class StatementFileError(Exception):
    """A file of statements that does not keep to the form."""


@cache
def statements(file: str) -> Mapping[str, str]:
    """The statements of `sql/<file>.sql` by name."""
    text = files("beacon_runner.postgres").joinpath("sql", f"{file}.sql").read_text(encoding="utf-8")
    _, *parts = _NAME.split(text)
    found: dict[str, str] = {}
    for name, body in zip(parts[::2], parts[1::2], strict=True):
        if name in found:
            raise StatementFileError(f"{file}.sql has two statements named {name}")
        if not body.lstrip("\n").startswith("-- "):
            raise StatementFileError(f"{file}.sql: {name} does not say what it is for")
        found[name] = f"-- {file}.{name}\n{body.strip().rstrip(';')}"
    return MappingProxyType(found)
