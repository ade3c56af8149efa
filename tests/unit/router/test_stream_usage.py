"""The token counts of streamed completions, and what is passed on of them."""

import orjson
import pytest

from beacon_router.backends.stream_usage import MAX_LINE_BYTES, StreamUsage, is_usage_wanted

WORD = b'data: {"choices":[{"index":0,"delta":{"content":"one"}}]}\n\n'
COUNTS = {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}
USAGE = b'data: {"id":"c","choices":[],"usage":%b}\n\n' % orjson.dumps(COUNTS)
DONE = b"data: [DONE]\n\n"


def passed_on(*pieces: bytes, drop: bool = True) -> tuple[bytes, StreamUsage]:
    stream = StreamUsage(drop=drop)
    return b"".join([*(stream.feed(piece) for piece in pieces), stream.rest()]), stream


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_usage_that_the_client_has_not_asked_for_is_read_and_dropped(end: bytes, size: int) -> None:
    body = b"".join([WORD, USAGE, DONE]).replace(b"\n", end)
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    passed, stream = passed_on(*pieces)
    assert passed.replace(b"\r\n", b"\n").replace(b"\r", b"\n") == WORD + DONE
    assert stream.counts == COUNTS


def test_usage_that_the_client_has_asked_for_is_passed_on_unchanged() -> None:
    passed, stream = passed_on(WORD, USAGE, DONE, drop=False)
    assert passed == WORD + USAGE + DONE
    assert stream.counts == COUNTS


def test_usage_beside_a_choice_is_passed_on_unchanged() -> None:
    last = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"total_tokens":9}}\n\n'
    passed, stream = passed_on(WORD, last, DONE)
    assert passed == WORD + last + DONE
    assert stream.counts == {"total_tokens": 9}


@pytest.mark.parametrize("drop", [False, True])
def test_a_usage_of_null_is_left_out(drop: bool) -> None:
    chunk = b'data: {"choices":[{"index":0,"delta":{"content":"one"}}],"usage":null}\n\n'
    passed, stream = passed_on(chunk, DONE, drop=drop)
    assert passed == WORD + DONE
    assert stream.counts is None


def test_whole_lines_are_passed_on_at_once() -> None:
    stream = StreamUsage(drop=True)
    assert stream.feed(WORD + b"data: {") == WORD
    assert stream.feed(b'"choices":[]}\n') == b'data: {"choices":[]}\n'


def test_a_line_that_is_too_long_is_passed_on_in_parts() -> None:
    stream = StreamUsage(drop=True)
    long = b'data: {"x":"' + b"x" * MAX_LINE_BYTES
    assert stream.feed(long) == long
    assert stream.feed(b'"usage"}\n\n' + USAGE) == b'"usage"}\n\n'
    assert stream.counts == COUNTS


def test_text_about_usage_is_no_usage() -> None:
    chunk = b"data: " + orjson.dumps({"choices": [{"delta": {"content": '{"usage": null}'}}]}) + b"\n\n"
    broken = b'data: {"usage"\n\nusage: "usage"\n'
    passed, stream = passed_on(chunk, broken)
    assert passed == chunk + broken
    assert stream.counts is None


@pytest.mark.parametrize(
    ("params", "wanted"),
    [
        (b'{"stream_options": {"include_usage": true}}', True),
        (b'{"stream_options":{"include_usage":false}}', False),
        (b'{"stream_options":["include_usage"]}', False),
        (b'{"user":"include_usage"}', False),
        (b"{}", False),
    ],
)
def test_a_client_wants_usage_if_its_options_say_so(params: bytes, wanted: bool) -> None:
    assert is_usage_wanted(params) is wanted
