"""Answers with bytes: they are in the file store, and the output refers to them."""

import asyncio
import gzip
import hashlib
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jmespath
import orjson
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from yarl import URL

from beacon_config.mappings import HttpMapping
from beacon_files import FileStore, open_store
from beacon_router.backends import BackendClient, BackendError, BackendResult
from beacon_router.backends.output_urls import OutputUrls
from beacon_router.backends.wire import FileRules
from tests.fixtures.app_server import app_server
from tests.integration.router.backend_calls import backend_at, open_client, spec_of
from tests.integration.router.raw_server import Connection, server_that

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4_000
WAV = b"RIFF\x00\x00\x00\x00WAVEfmt " + bytes(300_000)
MAX_BYTES = 8_000_000


def open_local(folder: Path) -> FileStore:
    return open_store(str(folder))


def answering(answer: Response) -> Starlette:
    async def reply(_: Request) -> Response:
        return answer

    return Starlette(routes=[Route("/{path:path}", reply, methods=["GET", "POST"])])


@asynccontextmanager
async def calls(store: FileStore, answer: Response, **options: Any) -> AsyncIterator[Any]:
    """A function that runs one call on a backend with this answer."""
    async with app_server(answering(answer)) as url, open_client() as client:
        yield lambda: run(client, url, store, **options)


async def run(
    client: BackendClient,
    url: str,
    store: FileStore,
    *,
    dialect: str = "http",
    urls: OutputUrls | None = None,
    max_bytes: int = MAX_BYTES,
    **mapping: Any,
) -> BackendResult:
    backend = backend_at(
        dialect,
        url,
        client,
        mapping=HttpMapping(**mapping) if dialect == "http" else None,
        files=FileRules(store, max_bytes, urls=urls),
        max_response_bytes=2_000_000,
    )
    return await backend.run(spec_of("r", "m", b'{"prompt":"cat"}'))


async def stored(store: FileStore) -> dict[str, bytes]:
    names = [one.name async for batch in store.list("outputs") for one in batch]
    return {name: b"".join([chunk async for chunk in store.get(name)]) for name in names}


async def check(store: FileStore, result: BackendResult, *contents: bytes) -> Any:
    """The store has exactly the files of the result, with these contents; the output."""
    objects = await stored(store)
    assert {file.object for file in result.files} == set(objects)
    assert sorted(objects.values()) == sorted(contents)
    for file in result.files:
        data = objects[file.object]
        assert (file.bytes, file.sha256) == (len(data), hashlib.sha256(data).hexdigest())
        assert file.id.encode() in result.output
    return orjson.loads(result.output)


def multipart(*parts: tuple[str, bytes], kind: str = "form-data") -> Response:
    body = b"".join(b"--sep\r\n" + head.encode() + b"\r\n\r\n" + data + b"\r\n" for head, data in parts)
    return Response(body + b"--sep--\r\n", media_type=f"multipart/{kind}; boundary=sep")


JSON_PART = 'content-disposition: form-data; name="stats"\r\ncontent-type: application/json'
FILE_PART = 'content-disposition: form-data; name="image"; filename="../a/cat.png"\r\ncontent-type: text/html'


@pytest.mark.parametrize("dialect", ["http", "modal", "execute", "openai"])
async def test_a_binary_answer_of_every_dialect_is_a_file(store: FileStore, dialect: str) -> None:
    async with calls(store, Response(PNG, media_type="application/octet-stream"), dialect=dialect) as call:
        output = await check(store, await call(), PNG)
    assert (output["content_type"], output["bytes"]) == ("image/png", len(PNG))
    assert output["url"] == f"/api/v1/files/{output['file']}/content"


async def test_a_compressed_binary_answer_is_stored_decompressed(store: FileStore) -> None:
    answer = Response(gzip.compress(PNG), media_type="image/png", headers={"content-encoding": "gzip"})
    async with calls(store, answer) as call:
        await check(store, await call(), PNG)


async def test_parts_of_a_multipart_answer(store: FileStore) -> None:
    encoded = (
        'content-disposition: form-data; name="image"; filename="b"\r\ncontent-transfer-encoding: base64'
    )
    text = 'content-disposition: form-data; name="seed"'
    answer = multipart(
        (FILE_PART, PNG), (JSON_PART, b'{"run_s": 2}'), (encoded, b64encode(WAV)), (text, b"a seed")
    )
    async with calls(store, answer, usage="stats") as call:
        result = await call()
    output = await check(store, result, PNG, WAV)
    assert [one["content_type"] for one in output["image"]] == ["image/png", "audio/wav"]
    assert [file.name for file in result.files] == ["cat.png", "b"]
    assert (output["stats"], output["seed"], result.run_s) == ({"run_s": 2}, "a seed", 2.0)


async def test_files_that_the_mapping_does_not_select_are_deleted(store: FileStore) -> None:
    answer = multipart((FILE_PART, PNG), (FILE_PART.replace('"image"', '"mask"'), WAV))
    async with calls(store, answer, output="image") as call:
        output = await check(store, await call(), PNG)
    assert output["content_type"] == "image/png"


@pytest.mark.parametrize(
    ("dialect", "answer", "field"),
    [
        ("modal", {"output": {"image": b64encode(PNG).decode()}}, "image"),
        ("execute", {"data": {"image": f"data:image/png;base64,{b64encode(PNG).decode()}"}}, "image"),
        (
            "openai",
            {"choices": [{"message": {"content": None, "audio": {"data": b64encode(PNG).decode()}}}]},
            "audio",
        ),
    ],
    ids=["modal", "execute", "openai"],
)
async def test_long_base64_of_every_dialect_is_a_file(
    store: FileStore, dialect: str, answer: dict[str, Any], field: str
) -> None:
    async with calls(store, JSONResponse(answer), dialect=dialect) as call:
        result = await call()
    output = await check(store, result, PNG)
    assert output[field].get("data", output[field])["content_type"] == "image/png"
    if dialect == "openai":  # the clients of /v1 get what the backend sent
        assert orjson.loads(result.response or b"") == answer


async def test_base64_may_be_larger_than_the_json_that_is_kept_in_memory(store: FileStore) -> None:
    async with calls(store, JSONResponse({"a": [b64encode(PNG * 3).decode()]}), output="a[0]") as call:
        await check(store, await call(), PNG * 3)


@pytest.mark.parametrize(
    ("answer", "content", "kind"),
    [
        (JSONResponse({"rows": ["a b"] * 60_000}), None, "application/json"),
        (Response("a b " * 90_000, media_type="text/plain"), b"a b " * 90_000, "text/plain; charset=utf-8"),
    ],
    ids=["json", "text"],
)
async def test_a_large_output_is_a_file_as_a_whole(
    store: FileStore, answer: Response, content: bytes | None, kind: str
) -> None:
    async with calls(store, answer) as call:
        output = await check(store, await call(), content or bytes(answer.body))
    assert output["content_type"] == kind


@pytest.mark.parametrize(
    ("url", "mapping", "answer", "found"),
    [
        (
            "/images/generations",
            {"request": {"model": "model", "prompt": "input.prompt"}, "output": "data"},
            JSONResponse({"created": 1, "data": [{"b64_json": b64encode(PNG).decode()}]}),
            "[0].b64_json.content_type",
        ),
        (
            "/audio/speech",
            {"request": {"model": "model", "input": "input.prompt", "voice": "params.voice"}},
            Response(WAV, media_type="audio/wav"),
            "content_type",
        ),
    ],
    ids=["images", "speech"],
)
async def test_images_and_speech_of_openai_compatible_servers(
    store: FileStore, url: str, mapping: dict[str, Any], answer: Response, found: str
) -> None:
    data = WAV if "audio" in url else PNG
    async with calls(store, answer, path=url, **mapping) as call:
        output = await check(store, await call(), data)
    assert jmespath.search(found, output) == ("audio/wav" if "audio" in url else "image/png")


async def test_html_is_never_kept_as_html(store: FileStore) -> None:
    part = FILE_PART.replace('name="image"', 'name="page"')
    async with calls(store, multipart((part, b"<html><script>alert(1)</script></html>"))) as call:
        output = orjson.loads((await call()).output)
    assert output["page"]["content_type"] == "text/plain; charset=utf-8"


async def test_an_endless_answer_ends_at_the_limit(store: FileStore) -> None:
    async def endless(connection: Connection) -> None:
        await connection.request()
        await connection.send(b"HTTP/1.1 200 OK\r\ncontent-type: image/png\r\n\r\n")
        while True:
            await connection.send(PNG)

    async with server_that(endless) as server, open_client() as client:
        with pytest.raises(BackendError) as failed:
            await run(client, server.url, store)
    assert (failed.value.code, failed.value.retryable) == ("output_too_large", False)
    assert await stored(store) == {}


async def test_a_cancelled_transfer_ends_at_once_and_leaves_nothing(store: FileStore) -> None:
    half, closed = asyncio.Event(), asyncio.Event()

    async def stalled(connection: Connection) -> None:
        await connection.request()
        await connection.send(b"HTTP/1.1 200 OK\r\ncontent-type: image/png\r\n\r\n" + PNG * 6)
        half.set()
        try:
            assert await connection.request() is None
        finally:
            closed.set()

    async with server_that(stalled) as server, open_client() as client:
        running = asyncio.ensure_future(run(client, server.url, store))
        await half.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await closed.wait()
    assert await stored(store) == {}
    assert await store.remove_incomplete("outputs", datetime.max.replace(tzinfo=UTC)) == 0


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (
            Response(
                gzip.compress(bytes(50_000_000)),
                headers={"content-encoding": "gzip"},
                media_type="image/png",
            ),
            "output_too_large",
        ),
        (JSONResponse({"a": b64encode(bytes(range(256)) * 40_000).decode()}), "output_too_large"),
        (JSONResponse(["a b"] * 600_000), "bad_payload"),
        (Response("<html>503</html>", media_type="image/png"), "bad_payload"),
        (multipart((FILE_PART, PNG), (JSON_PART, b"{")), "bad_payload"),
        (Response(b"--sep\r\n\r\nx", media_type="multipart/mixed; boundary=sep"), "bad_payload"),
        (Response(b"x", media_type="multipart/mixed"), "bad_payload"),
        (multipart((FILE_PART + "\r\ncontent-encoding: gzip", gzip.compress(PNG))), "bad_payload"),
        (multipart((FILE_PART + "\r\ncontent-transfer-encoding: rot13", PNG)), "bad_payload"),
        (multipart(*[(FILE_PART, b"x")] * 300), "bad_payload"),
    ],
    ids=[
        "decompression bomb",
        "base64 over the limit",
        "json over the limit",
        "error page as image",
        "bad part",
        "unfinished part",
        "no boundary",
        "compressed part",
        "unknown encoding",
        "too many files",
    ],
)
async def test_an_unusable_answer_leaves_nothing(tmp_path: Path, answer: Response, code: str) -> None:
    store = open_local(tmp_path)
    async with calls(store, answer) as call:
        with pytest.raises(BackendError) as failed:
            await call()
    assert (failed.value.code, failed.value.retryable) == (code, False)
    assert await stored(store) == {}


@pytest.mark.parametrize("framing", [b"content-length: 9000000", b"transfer-encoding: chunked"])
async def test_a_truncated_answer_is_retried_and_leaves_nothing(store: FileStore, framing: bytes) -> None:
    async def cut(connection: Connection) -> None:
        await connection.request()
        chunk = PNG if b"length" in framing else b"%x\r\n%b\r\n" % (len(PNG), PNG)
        await connection.send(
            b"HTTP/1.1 200 OK\r\ncontent-type: image/png\r\n" + framing + b"\r\n\r\n" + chunk * 6
        )

    async with server_that(cut) as server, open_client() as client:
        with pytest.raises(BackendError) as failed:
            await run(client, server.url, store)
    assert (failed.value.code, failed.value.retryable) == ("connection_lost", True)
    assert await stored(store) == {}


async def test_an_unavailable_store_is_a_fault_that_no_request_pays_for(tmp_path: Path) -> None:
    (tmp_path / "outputs").write_text("a file where the folder should be")
    async with calls(open_local(tmp_path), Response(PNG, media_type="image/png")) as call:
        with pytest.raises(BackendError) as failed:
            await call()
    assert (failed.value.code, failed.value.retryable) == ("file_store_unavailable", True)
    assert failed.value.fault is not None


async def test_urls_of_allowed_hosts_are_fetched(store: FileStore) -> None:
    credentials: list[str | None] = []

    async def reply(request: Request) -> Response:
        if request.url.path == "/cat.png":
            credentials.append(request.headers.get("authorization"))
            return Response(PNG, media_type="text/html")
        if request.url.path == "/moved":
            return RedirectResponse("/cat.png")
        own, other = str(request.base_url), "http://localhost:" + str(request.base_url.port)
        names = [
            f"{own}cat.png",
            f"{other}/cat.png",
            f"{own}moved",
            "http://10.0.0.1/secret",
            "a text with http",
        ]
        return JSONResponse(names)

    app = Starlette(routes=[Route("/{path:path}", reply, methods=["GET", "POST"])])
    async with app_server(app) as url, open_client() as client:
        port = URL(url).port
        hosts = [f"localhost:{port}", "*.example.com"]
        urls = OutputUrls(client, URL(url), hosts, headers={"authorization": "Bearer secret-key"})
        result = await run(client, url, store, urls=urls)
    output = await check(store, result, PNG, PNG, PNG)
    assert [one["content_type"] for one in output[:3]] == ["image/png"] * 3
    assert output[3:] == ["http://10.0.0.1/secret", "a text with http"]
    assert credentials == ["Bearer secret-key", None, "Bearer secret-key"]


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/gone", "output_not_fetched"),
        ("/away", "output_not_fetched"),
        ("/loop", "output_not_fetched"),
        ("/no-address", "output_not_fetched"),
        ("/no-host", "output_not_fetched"),
    ],
)
async def test_a_url_that_cannot_be_fetched_is_named(tmp_path: Path, path: str, code: str) -> None:
    async def reply(request: Request) -> Response:
        match request.url.path:
            case "/away":
                return RedirectResponse("http://169.254.169.254/latest/meta-data")
            case "/loop":
                return RedirectResponse("/loop")
            case "/no-address":
                return RedirectResponse("http://[::1")
            case "/no-host":
                return RedirectResponse("mailto:x")
            case "/gone":
                return Response(status_code=404)
        return JSONResponse(str(request.base_url).rstrip("/") + path)

    store = open_local(tmp_path)
    app = Starlette(routes=[Route("/{path:path}", reply, methods=["GET", "POST"])])
    async with app_server(app) as url, open_client() as client:
        with pytest.raises(BackendError) as failed:
            await run(client, url, store, urls=OutputUrls(client, URL(url), [], headers={}))
    assert (failed.value.code, failed.value.retryable) == (code, False)
    assert URL(url).authority not in failed.value.message
    assert await stored(store) == {}
