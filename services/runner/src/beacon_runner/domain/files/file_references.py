"""References to files inside of inputs: objects whose `file` is the id of a file."""

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from beacon_contracts.ids import (
    AUDIT,
    DELIVERY,
    EXECUTION,
    FILE,
    JOB,
    KEY,
    OPERATION,
    USER,
    WEBHOOK,
    FileId,
    InvalidIdError,
    decode_id,
)
from beacon_contracts.problem import FieldProblem

PREFIX = f"{FILE}_"
MAX_INPUT_FILES = 1_000
UNKNOWN_FILE = "unknown_file"
MISPLACED_FILE = "misplaced_file"
WRONG_TYPE = "wrong_type"
NO_SUCH_FILE = "you have no file with this id, or it has expired"
_OTHERS = (JOB, EXECUTION, USER, KEY, WEBHOOK, DELIVERY, OPERATION, AUDIT)
_OTHER_ID = re.compile(rf"({'|'.join(_OTHERS)})_[0-7][0-9a-z]{{25}}(\.\d+\.\d+)?")
"""An id of something else, given by mistake. Any other text is a value of the input."""


def file_references(value: Any, field: str) -> Iterator[tuple[str, object]]:
    """Each reference in a value: its field and the text of the id.

    An object with the only key `file` is meant as one, so that a number, a boolean or null there is an error.
    Other texts are not: models may have a field of this name, such as the name of a file of their own.
    """
    if isinstance(value, dict):
        named = value.get("file")
        if isinstance(named, str):
            if named.startswith(PREFIX) or _OTHER_ID.fullmatch(named):
                yield f"{field}.file", named
        elif not isinstance(named, dict | list) and value.keys() == {"file"}:
            yield f"{field}.file", named
        for key, inner in value.items():
            if isinstance(inner, dict | list):
                yield from file_references(inner, f"{field}.{key}")
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            if isinstance(inner, dict | list):
                yield from file_references(inner, f"{field}[{number}]")


def named_files(value: Any, field: str, problems: list[FieldProblem]) -> dict[FileId, str]:
    """The files that a submitted input names, each with the first field that does."""
    found: dict[FileId, str] = {}
    for place, text in file_references(value, field):
        if not isinstance(text, str):
            message = (
                'is no id of a file: an object with only the key "file" names one, as {"file": "file_…"}'
            )
            problems.append(FieldProblem(field=place, message=message, code=WRONG_TYPE))
            continue
        try:
            found.setdefault(FileId(decode_id(FILE, text)), place)
        except InvalidIdError:
            problems.append(unknown_file(place))
    if len(found) > MAX_INPUT_FILES:
        message = f"names {len(found)} files; at most {MAX_INPUT_FILES} are allowed"
        problems.append(FieldProblem(field=field, message=message, code="too_many"))
    return found


def misplaced_files(value: Any, field: str) -> Iterator[FieldProblem]:
    """Files are sent as parts of inputs; anywhere else a backend would get the reference itself."""
    for place, named in file_references(value, field):
        if isinstance(named, str):
            message = "a file can only be part of the input"
            yield FieldProblem(field=place, message=message, code=MISPLACED_FILE)


def files_in(value: Any) -> dict[FileId, str]:
    """The files that an input names when it is sent, with the id's text. A result may have other texts.

    Every job passes here, so it is a loop and not `file_references`.
    """
    found: dict[FileId, str] = {}
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, dict):
            named = one.get("file")
            if isinstance(named, str) and named.startswith(PREFIX):
                with suppress(InvalidIdError):
                    found[FileId(decode_id(FILE, named))] = named
            one = one.values()
        left += [inner for inner in one if isinstance(inner, dict | list)]
    return found


def unknown_file(field: str) -> FieldProblem:
    return FieldProblem(field=field, message=NO_SUCH_FILE, code=UNKNOWN_FILE)
