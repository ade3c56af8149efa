"""Files through a router process: records, a stopped store, a killed router and many transfers."""

import asyncio
import hashlib
import re
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import httpx
import pytest

from beacon_contracts.inference import InferenceState, InferenceView
from beacon_files import open_store
from tests.fixtures.file_stores import REGION
from tests.fixtures.router import Router, router_config, start_router
from tests.fixtures.waiting import until
from tests.integration.router.raw_server import Connection, Server, server_that

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8_000
LARGE = PNG * 10  # 20 MB
CONCURRENT = 20
BUCKET = "files"


async def answer(connection: Connection) -> None:
    """The model `large` answers 20 MB, all others a PNG."""
    while (line := await connection.request()) is not None:
        data = b"ok" if "/healthz" in line else LARGE if "/large" in line else PNG
        await connection.send(
            b"HTTP/1.1 200 OK\r\ncontent-type: image/png\r\ncontent-length: %d\r\n\r\n" % len(data) + data
        )


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with server_that(answer) as running:
        yield running


def config_of(server: Server) -> str:
    backends = {
        model: {
            "region": "US",
            "dialect": "http",
            "url": f"{server.url}/{model}",
            "models": [model],
            "slots": CONCURRENT,
        }
        for model in ("m", "large")
    }
    return router_config(backends, breaker_open_s=0.2)


async def stored(folder: Path) -> dict[str, bytes]:
    store = open_store(str(folder))
    names = [one.name async for batch in store.list("outputs") for one in batch]
    return {name: (folder / name).read_bytes() for name in names}


async def test_an_output_is_stored_and_described(server: Server, tmp_path: Path) -> None:
    async with start_router(config_of(server), BEACON_FILES_URL=str(tmp_path)) as router:
        view = await router.infer("r-1")
    [file] = view.files
    assert await stored(tmp_path) == {file.object: PNG}
    assert (file.content_type, file.sha256) == ("image/png", hashlib.sha256(PNG).hexdigest())
    assert view.output["file"] == file.id


async def test_a_reference_without_its_file_is_refused(server: Server) -> None:
    async with start_router(config_of(server)) as router:
        refused = await router.submit("r-1", given={"deep": [{"image": {"file": "file_other"}}]})
        plain = await router.infer("r-2", given={"file": "a text", "prompt": '"file_other"'})
    assert (refused.status_code, refused.json()["code"]) == (422, "unknown_file")
    assert plain.state is InferenceState.COMPLETED


async def test_work_waits_uncharged_while_the_store_is_unavailable(server: Server, tmp_path: Path) -> None:
    outputs = tmp_path / "outputs"
    outputs.write_text("a file where the folder should be")
    async with start_router(config_of(server), BEACON_FILES_URL=str(tmp_path)) as router:
        running = asyncio.ensure_future(router.infer("r-1"))

        async def reason() -> str:
            status = await router.http.get("/inference/r-1")
            return str(status.json().get("waiting_for")) if status.status_code == 202 else ""

        while "the file store is unavailable" not in await reason():
            assert not running.done()
        outputs.unlink()
        view = await running
    assert view.state is InferenceState.COMPLETED
    assert len(view.tries) == 1
    assert len(await stored(tmp_path)) == 1


async def test_a_router_killed_during_a_transfer_leaves_no_object(tmp_path: Path) -> None:
    begun, finish = asyncio.Event(), asyncio.Event()

    async def stalled(connection: Connection) -> None:
        while (line := await connection.request()) is not None:
            head = b"HTTP/1.1 200 OK\r\ncontent-type: image/png\r\ncontent-length: %d\r\n\r\n"
            if "/healthz" in line:
                await connection.send(head % 2 + b"ok")
                continue
            await connection.send(head % len(PNG) + PNG[:1_000_000])
            begun.set()
            await finish.wait()
            await connection.send(PNG[1_000_000:])

    async with server_that(stalled) as server:
        config = config_of(server)
        async with start_router(config, BEACON_FILES_URL=str(tmp_path)) as router:
            lost = asyncio.ensure_future(router.submit("r-1"))
            await begun.wait()
            await until(lambda: any(tmp_path.rglob("*#*")), "a part of the file is written")
            router.process.kill()
            with pytest.raises(httpx.HTTPError):
                await lost
        assert await stored(tmp_path) == {}
        finish.set()
        async with start_router(config, BEACON_FILES_URL=str(tmp_path)) as router:
            view = await router.infer("r-1", fence=1)
    assert await stored(tmp_path) == {view.files[0].object: PNG}


async def test_an_object_store_killed_during_a_transfer_charges_no_attempt(
    tmp_path: Path, unused_tcp_port: int
) -> None:
    """Its unfinished upload is lost with it; the work waits, and is run again when the store is back."""
    begun, finish = asyncio.Event(), asyncio.Event()

    async def halfway(connection: Connection) -> None:
        while (line := await connection.request()) is not None:
            data = b"ok" if "/healthz" in line else LARGE
            head = b"HTTP/1.1 200 OK\r\ncontent-type: image/png\r\ncontent-length: %d\r\n\r\n"
            await connection.send(head % len(data) + data[: len(LARGE) // 2])
            if data is LARGE:
                begun.set()
                await finish.wait()
                await connection.send(LARGE[len(LARGE) // 2 :])

    environment = s3_environment(unused_tcp_port)
    async with server_that(halfway) as server, AsyncExitStack() as stores:
        s3 = await stores.enter_async_context(s3_server(unused_tcp_port))
        async with start_router(config_of(server), **environment) as router:
            running = asyncio.ensure_future(router.infer("r-1", model="large"))
            await begun.wait()
            s3.kill()
            await s3.wait()
            finish.set()
            await stores.enter_async_context(s3_server(unused_tcp_port))
            view = await running
        objects = await s3_objects(unused_tcp_port)
    assert (view.state, len(view.tries)) == (InferenceState.COMPLETED, 1)
    assert objects == [(f"beacon/{view.files[0].object}", len(LARGE))]


def s3_environment(port: int) -> dict[str, str]:
    return {
        "BEACON_FILES_URL": f"s3://{BUCKET}/beacon",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": REGION,
        "AWS_ALLOW_HTTP": "true",
    }


@asynccontextmanager
async def s3_server(port: int) -> AsyncIterator[asyncio.subprocess.Process]:
    """A process with an S3 API and an empty bucket."""
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        await until(lambda: has_bucket(port), "the S3 API serves")
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def has_bucket(port: int) -> bool:
    async with httpx.AsyncClient(trust_env=False) as http:
        try:
            return (await http.put(f"http://127.0.0.1:{port}/{BUCKET}")).is_success
        except httpx.TransportError:
            return False


async def s3_objects(port: int) -> list[tuple[str, int]]:
    """The names and sizes of all objects."""
    async with httpx.AsyncClient(trust_env=False) as http:
        listing = (await http.get(f"http://127.0.0.1:{port}/{BUCKET}", params={"list-type": 2})).text
    found = re.findall("<Key>(.+?)</Key>.*?<Size>(.+?)</Size>", listing, re.DOTALL)
    return [(name, int(size)) for name, size in found]


async def test_memory_does_not_grow_with_the_size_of_files(server: Server, tmp_path: Path) -> None:
    async with start_router(config_of(server), BEACON_FILES_URL=str(tmp_path)) as router:
        await router.infer("r-0", model="large")
        before = memory_of(router, "VmRSS")
        views: list[InferenceView] = await asyncio.gather(
            *(router.infer(f"r-{number + 1}", model="large") for number in range(CONCURRENT))
        )
        grown = memory_of(router, "VmHWM") - before
    assert all(view.files[0].bytes == len(LARGE) for view in views)
    assert grown < CONCURRENT * 4 * 2**20


def memory_of(router: Router, field: str) -> int:
    for line in Path(f"/proc/{router.process.pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(field)
