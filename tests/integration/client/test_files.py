"""Transfers of files: sources of uploads, continued and verified downloads, names of saved outputs."""

import asyncio
import io
from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path

import pytest

from beacon_client import Beacon, BeaconUnreachable, DamagedFileError, RunnerClient
from beacon_client.outputs import OutputNames, safe_name
from beacon_contracts.jobs import ExecutionView
from tests.integration.client.documents import AT, execution
from tests.integration.client.runner_stub import RunnerStub, cut, raw, runner_stub

CONTENT = bytes(range(256)) * 4_000


@pytest.fixture
async def runner() -> AsyncIterator[RunnerStub]:
    async with runner_stub() as stub:
        stub.on("POST /api/v1/files", view())
        stub.on("GET /api/v1/files/file_a", view())
        yield stub


@pytest.fixture
async def client(runner: RunnerStub) -> AsyncIterator[RunnerClient]:
    async def no_pause(_seconds: float) -> None:
        await asyncio.sleep(0)

    async with RunnerClient(runner.url, "key", sleep=no_pause) as client:
        yield client


def view(content: bytes = CONTENT) -> dict[str, object]:
    return {
        "id": "file_a",
        "name": "a.png",
        "content_type": "image/png",
        "bytes": len(content),
        "sha256": sha256(content).hexdigest(),
        "created_at": AT,
        "url": "/api/v1/files/file_a/content",
    }


def left_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


async def pieces() -> AsyncIterator[bytes]:
    for start in range(0, len(CONTENT), 100_000):
        yield CONTENT[start : start + 100_000]


async def test_paths_bytes_and_streams_are_uploaded(
    runner: RunnerStub, client: RunnerClient, tmp_path: Path
) -> None:
    path = tmp_path / "ä.png"
    path.write_bytes(CONTENT)
    seen: list[tuple[int, int | None]] = []
    await client.files.upload(path, progress=lambda done, total: seen.append((done, total)))
    await client.files.upload(CONTENT, name="b")
    await client.files.upload(io.BytesIO(CONTENT))
    await client.files.upload(pieces())
    calls = runner.of("POST /api/v1/files")
    assert all(call.body == CONTENT for call in calls)
    assert [call.headers["x-file-name"] for call in calls] == ["%C3%A4.png", "b", "", ""]
    assert [call.headers.get("content-length") for call in calls] == [str(len(CONTENT))] * 2 + [None] * 2
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert seen == sorted(seen)


async def test_a_download_continues_after_lost_connections(
    runner: RunnerStub, client: RunnerClient, tmp_path: Path
) -> None:
    broken = raw(CONTENT, cut_after=300_000)
    runner.on("GET /api/v1/files/file_a/content", broken, broken, cut, raw(CONTENT))
    target = tmp_path / "a.png"
    assert await client.files.download("file_a", target) == len(CONTENT)
    assert target.read_bytes() == CONTENT
    assert left_in(tmp_path) == [target.name]
    ranges = [call.headers.get("range") for call in runner.of("GET /api/v1/files/file_a/content")]
    assert ranges[0] is None
    assert len(ranges) == 4
    assert all(given is not None and given.startswith("bytes=") for given in ranges[1:])


async def test_a_partial_file_of_an_earlier_process_is_continued(
    runner: RunnerStub, client: RunnerClient, tmp_path: Path
) -> None:
    runner.on("GET /api/v1/files/file_a/content", raw(CONTENT))
    target, partial = tmp_path / "a.png", tmp_path / "a.png.part"
    partial.write_bytes(CONTENT[:500_000])
    await client.files.download("file_a", target)
    (call,) = runner.of("GET /api/v1/files/file_a/content")
    assert call.headers["range"] == "bytes=500000-"
    partial.write_bytes(b"of another file")
    target.unlink()
    await client.files.download("file_a", target)
    assert target.read_bytes() == CONTENT
    await client.files.download("file_a", target)
    assert len(runner.of("GET /api/v1/files/file_a/content")) == 3


async def test_damaged_bytes_are_discarded(runner: RunnerStub, client: RunnerClient, tmp_path: Path) -> None:
    runner.on("GET /api/v1/files/file_a/content", raw(bytes(len(CONTENT))))
    with pytest.raises(DamagedFileError):
        await client.files.download("file_a", tmp_path / "a.png")
    assert left_in(tmp_path) == []


async def test_an_unreachable_runner_ends_a_download_and_keeps_its_bytes(
    runner: RunnerStub, client: RunnerClient, tmp_path: Path
) -> None:
    runner.on("GET /api/v1/files/file_a/content", raw(CONTENT, cut_after=200_000), cut)
    with pytest.raises(BeaconUnreachable):
        await client.files.download("file_a", tmp_path / "a.png")
    assert (tmp_path / "a.png.part").stat().st_size > 0


async def test_the_bytes_are_a_stream(runner: RunnerStub, client: RunnerClient) -> None:
    runner.on("GET /api/v1/files/file_a/content", raw(CONTENT))
    assert b"".join([piece async for piece in client.files.stream("file_a")]) == CONTENT


def test_the_blocking_client_transfers_files(served: RunnerStub, tmp_path: Path) -> None:
    served.on("POST /api/v1/files", view())
    served.on("GET /api/v1/files/file_a", view())
    served.on("GET /api/v1/files/file_a/content", raw(CONTENT))
    with Beacon(served.url, "key") as beacon:
        assert beacon.upload(io.BytesIO(CONTENT), name="a.png").id == beacon.file("file_a").id == "file_a"
        assert beacon.download("file_a", tmp_path / "a.png") == len(CONTENT)
        assert b"".join(beacon.stream("file_a")) == CONTENT
    assert (tmp_path / "a.png").read_bytes() == CONTENT


def names(*items: str) -> list[str]:
    reference = {"file": "file_a", "content_type": "audio/wav", "bytes": 1, "sha256": "x"}
    outputs = OutputNames()
    views = [
        ExecutionView.model_validate(execution(0) | {"item": item, "output": {"sound": [reference]}})
        for item in items
    ]
    return [found.name for one in views for found in outputs.references(one)]


def test_names_of_outputs_are_safe_and_unique() -> None:
    found = names("q1", "../../etc/passwd", "Q1", "q1", "con\n\x00/..", "x" * 500)
    assert len({name.casefold() for name in found}) == len(found) == 6
    for name in found:
        assert Path(name).name == name
        assert not name.startswith(".")
        assert name.endswith(".wav")
        assert len(name) < 200
    assert safe_name("...") == safe_name("") == "output"


async def test_the_progress_of_a_job_is_that_of_all_its_files(
    runner: RunnerStub, client: RunnerClient, tmp_path: Path
) -> None:
    contents = {f"file_{number}": bytes(1_000 * (number + 1)) for number in range(9)}
    references = [
        {"file": name, "content_type": "audio/wav", "bytes": len(content), "sha256": digest(content)}
        for name, content in contents.items()
    ]
    page = {"executions": [execution(0) | {"output": references}], "next_cursor": None}
    runner.on("GET /api/v1/jobs/job_a/executions", page)
    for name, content in contents.items():
        runner.on(f"GET /api/v1/files/{name}/content", raw(content))
    seen: list[tuple[int, int | None]] = []
    saved = await client.save_outputs(
        "job_a", tmp_path, progress=lambda done, total: seen.append((done, total))
    )
    assert [one.file_id for one in saved] == list(contents)
    assert seen[-1] == (45_000, 45_000)
    assert seen == sorted(seen)


def digest(content: bytes) -> str:
    return sha256(content).hexdigest()
