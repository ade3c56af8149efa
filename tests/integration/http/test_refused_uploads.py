"""A client that sends its whole body before it reads gets the refusal, not a reset connection."""

import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from tests.fixtures.waiting import WAIT_TIMEOUT_S, eventually
from tests.fixtures.wire import wire_to

PIECE = bytes(250_000)
UPLOAD_BYTES = 400 * len(PIECE)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of another process: what it sends and when it closes is independent of this event loop."""
    ready: Path = tmp_path_factory.mktemp("server") / "url"
    process = subprocess.Popen([sys.executable, "-m", "tests.fixtures.refusing_server", str(ready)])
    try:
        eventually(ready.exists, "the server serves")
        yield ready.read_text(encoding="utf-8")
    finally:
        process.kill()
        process.wait()


async def body() -> AsyncIterator[bytes]:
    for _ in range(UPLOAD_BYTES // len(PIECE)):
        yield PIECE


@pytest.mark.parametrize("announced", [True, False])
@pytest.mark.parametrize(("path", "status"), [("key", 401), ("size", 413), ("quota", 429)])
async def test_the_refusal_of_a_large_upload_is_read(
    url: str, path: str, status: int, announced: bool
) -> None:
    headers = {"content-length": str(UPLOAD_BYTES)} if announced else {}
    async with httpx.AsyncClient(timeout=WAIT_TIMEOUT_S, trust_env=False) as http:
        answer = await http.post(f"{url}/{path}", content=body(), headers=headers)
    assert answer.status_code == status


async def test_a_client_that_waits_for_100_continue_is_answered_at_once(url: str) -> None:
    head = f"POST /size HTTP/1.1\r\nhost: x\r\ncontent-length: {UPLOAD_BYTES}\r\nexpect: 100-continue\r\n\r\n"
    async with wire_to(url) as wire:
        await wire.send(head.encode())
        assert (await wire.reader.readline()).startswith(b"HTTP/1.1 413 ")
