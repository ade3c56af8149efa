"""What every file store does."""

import asyncio
import hashlib
import sys
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import pytest

from beacon_files import (
    FileStore,
    FileStoreError,
    FileTooLargeError,
    FileUnavailableError,
    ObjectNotFoundError,
    object_store,
    open_store,
)

PNG = b"\x89PNG\r\n\x1a\n" + bytes(100)
BIG = bytes(range(256)) * 49_152  # 12 MiB: several parts in every store
NO_LIMIT = 1 << 40


async def chunks_of(data: bytes, size: int = 100_000) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


async def read(store: FileStore, name: str, *, start: int = 0, end: int | None = None) -> bytes:
    return b"".join([chunk async for chunk in store.get(name, start=start, end=end)])


async def names(store: FileStore, prefix: str) -> list[str]:
    return sorted([one.name async for batch in store.list(prefix) for one in batch])


@pytest.mark.parametrize("data", [b"", b"x", PNG, BIG], ids=["empty", "byte", "png", "12 MiB"])
async def test_a_stored_object_is_read_back_unchanged(store: FileStore, data: bytes) -> None:
    stored = await store.put("uploads/a", chunks_of(data), max_bytes=NO_LIMIT)
    assert stored.size == len(data)
    assert stored.sha256 == hashlib.sha256(data).hexdigest()
    assert await read(store, "uploads/a") == data


async def test_the_content_type_comes_from_the_content(store: FileStore) -> None:
    stored = await store.put("uploads/page.html", chunks_of(PNG, 3), max_bytes=NO_LIMIT)
    assert stored.content_type == "image/png"


@pytest.mark.parametrize(
    ("start", "end"), [(0, 10), (5, 6), (4_000_000, 9_000_000), (12_582_000, None), (7, 7)]
)
async def test_a_range_is_read(store: FileStore, start: int, end: int | None) -> None:
    await store.put("uploads/a", chunks_of(BIG), max_bytes=NO_LIMIT)
    assert await read(store, "uploads/a", start=start, end=end) == BIG[start:end]


@pytest.mark.parametrize("max_bytes", [10, 6_000_000])
async def test_a_file_over_the_limit_leaves_nothing(store: FileStore, max_bytes: int) -> None:
    with pytest.raises(FileTooLargeError):
        await store.put("uploads/a", chunks_of(BIG), max_bytes=max_bytes)
    assert await names(store, "uploads") == []


async def test_an_upload_that_breaks_off_leaves_nothing(store: FileStore) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield BIG
        raise ConnectionError("the client is gone")

    with pytest.raises(ConnectionError):
        await store.put("uploads/a", broken(), max_bytes=NO_LIMIT)
    assert await names(store, "uploads") == []


async def test_objects_are_listed_by_folder(store: FileStore) -> None:
    for name in ("uploads/a", "uploads/b", "outputs/c"):
        await store.put(name, chunks_of(b"x"), max_bytes=NO_LIMIT)
    assert await names(store, "uploads") == ["uploads/a", "uploads/b"]
    assert await names(store, "none") == []


async def test_deleting_ignores_missing_objects(store: FileStore) -> None:
    await store.put("uploads/a", chunks_of(b"x"), max_bytes=NO_LIMIT)
    await store.delete(["uploads/missing", "uploads/a"])
    with pytest.raises(ObjectNotFoundError):
        await read(store, "uploads/a")


async def test_a_signed_url_works_without_credentials(store: FileStore) -> None:
    await store.put("uploads/a", chunks_of(PNG), max_bytes=NO_LIMIT)
    url = await store.signed_url("uploads/a", expires_s=60)
    if url is None:  # a local directory has no address of its own
        return
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        assert await response.read() == PNG


@pytest.mark.parametrize("data", [PNG, PNG + BIG], ids=["one request", "parts"])
async def test_a_signed_url_has_type_and_name_of_the_file(store: FileStore, data: bytes) -> None:
    await store.put(
        "uploads/a", chunks_of(data), max_bytes=NO_LIMIT, file_name=lambda kind: f"grüße.{kind[-3:]}"
    )
    await store.put("uploads/page", chunks_of(b"<html></html>"), max_bytes=NO_LIMIT)
    url, page = [await store.signed_url(name, expires_s=60) for name in ("uploads/a", "uploads/page")]
    if url is None or page is None:
        return
    async with aiohttp.ClientSession() as session, session.get(url) as one, session.get(page) as other:
        assert one.content_type == "image/png"
        assert one.headers["content-disposition"] == "attachment; filename*=UTF-8''gr%C3%BC%C3%9Fe.png"
        assert (other.content_type, other.headers["content-disposition"]) == ("text/plain", "attachment")


@pytest.mark.parametrize("data", [b"x", BIG[:1_000_000], BIG], ids=["one request", "one part", "parts"])
async def test_an_unavailable_store_is_reported(store_url: str, data: bytes) -> None:
    store = open_store(store_url)
    if store_url.startswith("s3:"):
        store = open_store("s3://missing-bucket/beacon")
    else:
        await store.put("uploads", chunks_of(b"a file where the folder should be"), max_bytes=NO_LIMIT)
    with pytest.raises(FileStoreError) as raised:
        await store.put("uploads/a", chunks_of(data), max_bytes=NO_LIMIT)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("size", [1_000, 1_000_000, 12_000_000])
async def test_errors_of_the_bytes_pass_unchanged(store: FileStore, size: int) -> None:
    async def lost() -> AsyncIterator[bytes]:
        yield BIG[:size]
        raise ConnectionResetError("the sender is gone")

    with pytest.raises(ConnectionResetError):
        await store.put("uploads/a", lost(), max_bytes=NO_LIMIT)
    assert await names(store, "uploads") == []


@pytest.mark.parametrize("size", [1_000, 1_000_000, 12_000_000])
async def test_a_store_that_does_not_answer_is_unavailable(
    monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer):
            while await reader.read(65_536):
                pass

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    monkeypatch.setattr(object_store, "READ_TIMEOUT_S", 0.2)
    monkeypatch.setattr(object_store, "RETRY_TIMEOUT_S", 0.2)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    for name, value in {
        "ACCESS_KEY_ID": "a",
        "SECRET_ACCESS_KEY": "b",
        "REGION": "c",
        "ALLOW_HTTP": "true",
    }.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    async with server:
        store = open_store("s3://bucket")
        with pytest.raises(FileUnavailableError):
            await store.put("a", chunks_of(BIG[:size]), max_bytes=NO_LIMIT)
        with pytest.raises(FileUnavailableError):
            await read(store, "a")


@pytest.mark.parametrize("size", [200_000, 400_000, 12_000_000], ids=["one request", "two parts", "parts"])
async def test_a_full_disk_is_unavailable_and_leaves_nothing(tmp_path: Path, size: int) -> None:
    """A process that may write 100 kB to a file: the system refuses the rest, as on a full disk."""
    program = (
        "import asyncio, resource, sys\n"
        "from beacon_files import FileUnavailableError, open_store\n"
        "async def chunks():\n"
        "    yield bytes(int(sys.argv[2]))\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "try:\n"
        "    asyncio.run(open_store(sys.argv[1]).put('uploads/a', chunks(), max_bytes=1 << 40))\n"
        "except FileUnavailableError as error:\n"
        "    print('unavailable:', error)\n"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, str(tmp_path), str(size), stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    assert output.startswith(b"unavailable:"), output
    assert list((tmp_path / "uploads").iterdir()) == []


async def test_parts_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    program = (
        "import asyncio, sys\n"
        "from beacon_files import open_store\n"
        "async def chunks():\n"
        "    yield bytes(2_000_000)\n"
        "    print('written', flush=True)\n"
        "    await asyncio.sleep(600)\n"
        "asyncio.run(open_store(sys.argv[1]).put('uploads/a', chunks(), max_bytes=1 << 40))\n"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, str(tmp_path), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"written\n"
    process.kill()
    await process.wait()
    store = open_store(str(tmp_path))
    assert await names(store, "uploads") == []
    assert await store.remove_incomplete("uploads", datetime.now(UTC) - timedelta(days=1)) == 0
    assert await store.remove_incomplete("uploads", datetime.now(UTC) + timedelta(days=1)) == 1
    assert list((tmp_path / "uploads").iterdir()) == []
