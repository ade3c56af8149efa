"""Text of numbers, times and outputs."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from beacon_cli.output.formatting import ago, answer, seconds


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, ""),
        (-5.0, "0.0 s"),
        (0.42, "0.4 s"),
        (42.4, "42 s"),
        (59.9, "60 s"),
        (185.0, "3 min 5 s"),
        (7_800.0, "2 h 10 min"),
        (200_000.0, "2 days"),
    ],
)
def test_durations(value: float | None, shown: str) -> None:
    assert seconds(value) == shown


def test_times_are_relative_to_now() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert ago(now - timedelta(seconds=90), now) == "1 min 30 s ago"
    assert ago(now + timedelta(seconds=90), now) == "0.0 s ago"
    assert ago(None) == ""


FILE = {"file": "file_a", "content_type": "image/png", "bytes": 4_300, "sha256": "0", "url": "/a"}


@pytest.mark.parametrize(
    ("output", "shown"),
    [
        ({"text": "blue"}, "blue"),
        ({"output": {"text": "a\n  b"}}, "a b"),
        ({"model_url": "https://x"}, "https://x"),
        ({"a": 1, "b": [2]}, '{"a":1,"b":[2]}'),
        ({"text": ""}, ""),
        (FILE, "image/png, 4.3 kB: file_a"),
        ({"image": FILE}, "image/png, 4.3 kB: file_a"),
        ({"images": [FILE, FILE]}, "image/png, 4.3 kB: file_a, image/png, 4.3 kB: file_a"),
        (["a", 1], '["a",1]'),
        ([], "[]"),
        ("plain", "plain"),
        (None, ""),
        ({}, "{}"),
        (3, "3"),
    ],
)
def test_an_output_is_shown_by_its_text(output: Any, shown: str) -> None:
    assert answer(output) == shown
