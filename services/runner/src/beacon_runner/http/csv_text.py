"""CSV that spreadsheets can open: no cell is a formula."""

import csv
import io
from collections.abc import Iterable

# With the full-width forms, which some spreadsheets accept.
_FORMULA = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")


def csv_lines(rows: Iterable[Iterable[object]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows([csv_cell(value) for value in row] for row in rows)
    return text.getvalue()


def csv_cell(value: object) -> object:
    """Text that a spreadsheet would compute gets an apostrophe; None is empty."""
    if value is None:
        return ""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
