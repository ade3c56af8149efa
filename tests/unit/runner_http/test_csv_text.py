"""CSV for spreadsheets."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beacon_runner.http.csv_text import csv_cell, csv_lines


@pytest.mark.parametrize(
    "text",
    ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "\uff1d1+1", "\uff0b1", "\uff0d1", "\uff201"],
)
def test_a_text_that_a_spreadsheet_computes_gets_an_apostrophe(text: str) -> None:
    assert csv_cell(text) == f"'{text}"


@pytest.mark.parametrize("value", [-1, -0.5, "a=1", "", "a cat", True])
def test_other_values_stay_as_they_are(value: object) -> None:
    assert csv_cell(value) == value


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0")), min_size=2, max_size=4))
def test_every_cell_is_read_back_as_it_was_written(cells: list[str]) -> None:
    (row,) = csv.reader(io.StringIO(csv_lines([cells]), newline=""))
    assert row == [csv_cell(cell) for cell in cells]
