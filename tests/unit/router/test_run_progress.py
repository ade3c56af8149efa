"""Progress in what backends report, and the documents of streamed answers."""

from collections.abc import AsyncIterator

import pytest

from beacon_config.mappings import ProgressMapping
from beacon_contracts.inference import RunProgress
from beacon_router.backends.document_stream import DocumentStream
from beacon_router.backends.progress import MAX_PREVIEW_LENGTH, ProgressExpressions, progress_of

IMAGE = "data:image/png;base64,iVBORw0KGgo="


@pytest.mark.parametrize(
    ("given", "percent", "message"),
    [
        ({"share": 0.456}, 45.6, None),
        ({"percent": 45.64}, 45.6, None),
        ({"percent": 120}, 100.0, None),
        ({"percent": -1}, 0.0, None),
        ({"share": float("nan"), "message": "loading"}, None, "loading"),
        ({"percent": True, "message": "loading"}, None, "loading"),
        ({"message": "one\ntwo\n\n"}, None, "two"),
        ({"message": " 45%|####5     | 9/20 [00:03<00:04,  2.5it/s]"}, 45.0, "9/20 [00:03<00:04, 2.5it/s]"),
        ({"message": "Using seed: 7\n  0%|     | 0/20\r 50%|##   | 10/20"}, 50.0, "10/20"),
        ({"message": "Denoising: 50%|##   | 10/20"}, 50.0, "Denoising: 10/20"),
        ({"percent": 12, "message": "50%|##   | 10/20"}, 12.0, "10/20"),
        ({"message": "x" * 1_000}, None, "x" * 200),
    ],
)
def test_progress_is_parsed_from_reports_of_backends(
    given: dict[str, object], percent: float | None, message: str | None
) -> None:
    assert progress_of(**given) == RunProgress(percent=percent, message=message, preview=None)


@pytest.mark.parametrize(
    "given",
    [{}, {"share": "half"}, {"message": " \n"}, {"message": 7}, {"preview": "https://x.example/p.png"}],
)
def test_unusable_values_are_no_progress(given: dict[str, object]) -> None:
    assert progress_of(**given) is None


def test_a_preview_is_a_data_url_of_a_bounded_length() -> None:
    shown = progress_of(preview=IMAGE)
    assert shown is not None
    assert shown.preview == IMAGE
    assert progress_of(preview="data:text/html;base64,PGI+") is None
    assert progress_of(preview=IMAGE[:-1] + "A" * MAX_PREVIEW_LENGTH) is None


def test_expressions_find_the_progress_in_a_document() -> None:
    expressions = ProgressExpressions(ProgressMapping(percent="state.done", message="state.log[-1]"))
    document = {"state": {"done": 30, "log": ["one", "two"]}, "preview": IMAGE}
    assert expressions.of(document) == RunProgress(percent=30.0, message="two", preview=IMAGE)
    assert expressions.of(["no", "object"]) is None


async def in_pieces(data: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


async def documents(data: bytes, kind: str, size: int) -> list[bytes]:
    stream = DocumentStream(in_pieces(data, size), kind)
    found = []
    while (document := await stream.next()) is not None:
        found.append(b"".join([piece async for piece in document]).strip())
    return found


@pytest.mark.parametrize("size", [1, 3, 7, 1_000])
@pytest.mark.parametrize(
    ("kind", "data", "expected"),
    [
        ("application/x-ndjson", b'{"a":1}\n\n{"b":2}\n', [b'{"a":1}', b'{"b":2}']),
        ("application/x-ndjson", b'{"a":1}\r\n \r\n{"b":2}', [b'{"a":1}', b'{"b":2}']),
        ("application/x-ndjson", b"", []),
        ("text/event-stream", b'data: {"a":1}\n\ndata:{"b":2}\n\n', [b'{"a":1}', b'{"b":2}']),
        (
            "text/event-stream",
            b': comment\r\nevent: x\r\nid: 7\r\ndata: {"a":\r\ndata: 1}\r\n\r\n:\r\n\r\ndata: {}\r\n\r\n',
            [b'{"a":\r\n 1}', b"{}"],
        ),
        ("text/event-stream", b"retry: 3\n\ndata: 1", [b"1"]),
        ("text/event-stream", b"\n\n\n", []),
    ],
)
async def test_the_documents_of_a_stream(kind: str, data: bytes, expected: list[bytes], size: int) -> None:
    assert await documents(data, kind, size) == expected
