"""Long base64 texts in JSON become files, at whatever byte the response is split."""

import json
import random
from base64 import b64encode
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beacon_router.backends import BackendError
from beacon_router.backends.json_reader import MAX_TEXT_BYTES, JsonReader

BYTES = random.Random(1).randbytes(150_000)
LONG = b64encode(BYTES).decode()
LINES = "\\n".join(LONG[start : start + 76] for start in range(0, len(LONG), 76))


class Files:
    """A store in memory."""

    def __init__(self) -> None:
        self.saved: list[bytes] = []

    async def save(self, chunks: AsyncIterator[bytes]) -> dict[str, Any]:
        self.saved.append(b"".join([chunk async for chunk in chunks]))
        return {"file": len(self.saved) - 1}


async def pieces_of(text: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(text), size):
        yield text[start : start + size]


async def read(text: bytes, *, size: int = 10_000, max_bytes: int = 1_000_000) -> tuple[Any, list[bytes]]:
    files = Files()
    reader = JsonReader(pieces_of(text, size), files.save, max_bytes)
    return orjson.loads(await reader.read()), files.saved


@pytest.mark.parametrize("size", [1, 4_095, 65_536, 10_000_000])
async def test_long_texts_become_files(size: int) -> None:
    document = {
        "prompt": 'a "quoted" \\ cat \\"',
        "images": [LONG, f"data:image/png;base64,{LONG}"],
        "small": LONG[:1_000],
        "seed": 5,
    }
    found, saved = await read(json.dumps(document).encode(), size=size)
    assert found == {**document, "images": [{"file": 0}, {"file": 1}]}
    assert saved == [BYTES, BYTES]


@given(
    st.lists(
        st.tuples(
            st.one_of(
                st.text(max_size=20),
                st.sampled_from(['"', "\\", '\\"', "ACGT" * 20_000, "7" * 70_000, "aB3 " * 20_000]),
                st.integers(0, 150_000).map(lambda n: b64encode(BYTES[:n]).decode()),
            ),
            st.booleans(),
        ),
        max_size=6,
    ),
    st.integers(1_000, 200_000),
)
async def test_every_other_text_stays_as_it_is(entries: list[tuple[str, bool]], size: int) -> None:
    texts = [text for text, _ in entries]
    nested = [json.dumps(text) if inside else text for text, inside in entries]
    found, saved = await read(json.dumps(nested).encode(), size=size, max_bytes=10_000_000)
    expected: list[Any] = []
    files = iter(range(len(saved)))
    for text, (_, inside), sent in zip(texts, entries, nested, strict=True):
        long = len(sent) > MAX_TEXT_BYTES and not inside and BYTES.startswith(_decoded(text))
        expected.append({"file": next(files)} if long else sent)
    assert found == expected


def _decoded(text: str) -> bytes:
    """Something that the bytes do not begin with, if it is no base64 of theirs."""
    return BYTES[: len(text) // 4 * 3 - text.count("=")] if LONG.startswith(text[:60_000]) else b"no"


@pytest.mark.parametrize(
    "text",
    [
        LONG.replace("/", "\\/"),
        LONG.rstrip("="),
        LINES,
    ],
    ids=["escaped slashes", "without padding", "lines"],
)
@pytest.mark.parametrize("size", [997, 100_000])
async def test_spellings_of_base64(text: str, size: int) -> None:
    _, saved = await read(b'["' + text.encode() + b'"]', size=size)
    assert saved == [BYTES]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b'["' + LONG.encode(), "ends within"),
        (b'["' + LONG.encode() + b'!"]', "is not"),
        (b'["' + LONG[:100_000].encode() + b"==" + LONG.encode() + b'"]', "is not"),
        (b'["' + LONG.encode() + b'\\""]', "is not"),
        (b"[" + b'"x y", ' * 200_000, "longer than"),
    ],
    ids=["truncated", "other characters", "padding inside", "an escaped quote", "too long"],
)
async def test_an_answer_that_cannot_be_read_is_an_error(text: bytes, words: str) -> None:
    with pytest.raises(BackendError, match=words) as failed:
        await read(text)
    assert failed.value.code == "bad_payload"
