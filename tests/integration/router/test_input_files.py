"""Files that an input names: the backend gets them as its configuration says."""

from base64 import b64decode, b64encode
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from beacon_config.mappings import HttpMapping
from beacon_config.topology import BackendConfig, FileInput
from beacon_contracts.files import InputFile
from beacon_files import FileStore, open_store
from beacon_router.backends import BackendError
from beacon_router.backends.wire import FileRules
from tests.fixtures.app_server import app_server
from tests.integration.router.backend_calls import backend_at, open_client, spec_of

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4_001
WAV = b"RIFF\x00\x00\x00\x00WAVEfmt " + bytes(70_000)
RUNNER_URL = "http://runner:8000/api/v1/files/file_a/content?signature=1"


def input_file(name: str, data: bytes, kind: str, url: str | None = RUNNER_URL) -> InputFile:
    return InputFile(
        id=f"file_{name}",
        object=f"uploads/u/{name}",
        name=f"the {name}.bin",
        content_type=kind,
        bytes=len(data),
        url=url,
    )


FILES = (input_file("png", PNG, "image/png"), input_file("wav", WAV, "audio/wav"))
RESULT = {"output": 1, "data": 1, "choices": [{"message": {"content": "x"}}]}
"""An answer of every dialect."""
IMAGE, SOUND = {"file": "file_png", "bytes": 5}, {"file": "file_wav"}


@pytest.fixture
async def filled(store: FileStore) -> FileStore:
    for file, data in zip(FILES, (PNG, WAV), strict=True):
        await store.put(file.object, _chunks(data), max_bytes=len(data))
    return store


async def _chunks(data: bytes) -> AsyncIterator[bytes]:
    yield data


async def received(request: Request) -> Any:
    """The bytes of parts in base64."""
    if "multipart" in request.headers.get("content-type", ""):
        async with request.form() as form:
            fields = [[name, await _field(value)] for name, value in form.multi_items()]
        return {"length": request.headers["content-length"], "fields": fields}
    return {"query": dict(request.query_params), "body": orjson.loads(await request.body() or b"null")}


async def _field(value: str | UploadFile) -> Any:
    if isinstance(value, str):
        return value
    return [value.filename, value.content_type, b64encode(await value.read()).decode()]


async def sent(
    store: FileStore,
    given: dict[str, Any],
    *,
    mode: str = "base64",
    dialect: str = "http",
    files: tuple[InputFile, ...] = FILES,
    **mapping: Any,
) -> Any:
    """What the backend received."""
    seen: list[Any] = []

    async def answer(request: Request) -> JSONResponse:
        seen.append(await received(request))
        return JSONResponse(RESULT)

    app = Starlette(routes=[Route("/{path:path}", answer, methods=["GET", "POST"])])
    async with app_server(app) as url, open_client() as client:
        backend = backend_at(
            dialect,
            url,
            client,
            mapping=HttpMapping(**mapping) if dialect == "http" else None,
            files=FileRules(store, 10_000_000, FileInput(mode)),
        )
        await backend.run(spec_of("r", "m", orjson.dumps(given), files=files))
    return seen[0]


@pytest.mark.parametrize("dialect", ["http", "modal", "execute"])
async def test_base64_takes_the_place_of_each_reference(filled: FileStore, dialect: str) -> None:
    given = {"prompt": "cat", "image": IMAGE, "more": [SOUND, {"deep": {"mask": IMAGE}}]}
    received = (await sent(filled, given, dialect=dialect))["body"]
    found = received.get("input") or received.get("payload", {}).get("params") or received
    assert found["prompt"] == "cat"
    assert b64decode(found["image"]) == b64decode(found["more"][1]["deep"]["mask"]) == PNG
    assert b64decode(found["more"][0]) == WAV


async def test_a_mapping_chooses_among_files_and_makes_data_urls(filled: FileStore) -> None:
    request = {"picture": "join('', ['data:image/png;base64,', input.image])", "n": 1}
    received = await sent(filled, {"image": IMAGE, "sound": SOUND}, request=request)
    assert received["body"] == {
        "picture": "data:image/png;base64," + b64encode(PNG).decode(),
        "n": 1,
    }


async def test_messages_of_chat_models_have_data_urls_and_sounds(filled: FileStore) -> None:
    parts = [
        {"type": "text", "text": "what is this?"},
        {"type": "image_url", "image_url": IMAGE},
        {"type": "image_url", "image_url": {"url": IMAGE, "detail": "low"}},
        {"type": "input_audio", "input_audio": SOUND},
        IMAGE,
        SOUND,
    ]
    given = {"messages": [{"role": "user", "content": parts}]}
    received = (await sent(filled, given, dialect="openai"))["body"]
    image = "data:image/png;base64," + b64encode(PNG).decode()
    sound = {"data": b64encode(WAV).decode(), "format": "wav"}
    assert received["messages"][0]["content"] == [
        parts[0],
        {"type": "image_url", "image_url": {"url": image}},
        {"type": "image_url", "image_url": {"url": image, "detail": "low"}},
        {"type": "input_audio", "input_audio": sound},
        {"type": "image_url", "image_url": {"url": image}},
        {"type": "input_audio", "input_audio": sound},
    ]


async def test_a_form_has_a_part_for_each_file(filled: FileStore) -> None:
    given = {"prompt": "cat", "steps": 4, "image": IMAGE, "all": [IMAGE, SOUND], "deep": {"mask": SOUND}}
    received = await sent(filled, given, mode="multipart")
    png = ["the png.bin", "image/png", b64encode(PNG).decode()]
    wav = ["the wav.bin", "audio/wav", b64encode(WAV).decode()]
    assert sorted(received["fields"], key=str) == sorted(
        [
            ["prompt", "cat"],
            ["steps", "4"],
            ["image", png],
            ["all", png],
            ["all", wav],
            ["deep", '{"mask":"deep.mask"}'],
            ["deep.mask", wav],
        ],
        key=str,
    )
    assert int(received["length"]) > 2 * len(PNG)


async def test_a_url_is_the_store_s_own_or_the_runner_s(filled: FileStore, store_url: str) -> None:
    request = {"q": "input.image"}
    received = await sent(filled, {"image": IMAGE}, mode="url", method="GET", path="/x", request=request)
    url = received["query"]["q"]
    if not store_url.startswith("s3:"):
        assert url == RUNNER_URL
        return
    async with httpx.AsyncClient() as http:
        assert (await http.get(url)).content == PNG


@pytest.mark.parametrize(
    ("files", "options", "code"),
    [
        ((input_file("png", PNG, "image/png", url=None),), {"mode": "url"}, "files_have_no_url"),
        ((input_file("png", PNG + b"x", "image/png"),), {}, "input_file_missing"),
        ((input_file("png", PNG, "image/png").model_copy(update={"object": "a"}),), {}, "input_file_missing"),
        ((input_file("png", PNG, "image/png"),), {"method": "GET"}, "unusable_input"),
    ],
    ids=["no url", "other size", "deleted", "in a query"],
)
async def test_a_file_that_cannot_be_sent_is_named(
    tmp_path: Path, files: tuple[InputFile, ...], options: dict[str, Any], code: str
) -> None:
    store = open_store(str(tmp_path))
    await store.put(FILES[0].object, _chunks(PNG), max_bytes=len(PNG))
    with pytest.raises(BackendError) as failed:
        await sent(store, {"image": IMAGE}, files=files, **options)
    assert (failed.value.code, failed.value.retryable, failed.value.fault) == (code, False, None)


@pytest.mark.parametrize(
    "keys",
    [
        {"dialect": "openai", "files": "multipart"},
        {"dialect": "http", "files": "multipart", "http": {"method": "GET"}},
        {"dialect": "http", "fetch_outputs": False, "fetch_hosts": ["cdn.example.com"]},
        {"dialect": "http", "fetch_outputs": True, "fetch_hosts": ["https://cdn.example.com/"]},
        {"dialect": "http", "files": "ftp"},
    ],
)
def test_impossible_settings_are_rejected(keys: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        BackendConfig(url="http://127.0.0.1:1", models=["m"], **keys)


@pytest.mark.parametrize("given", [{}, {"image": IMAGE}])
async def test_a_text_with_the_form_of_a_token_is_sent_as_it_is(
    filled: FileStore, given: dict[str, Any]
) -> None:
    """Tokens stand for files while a request is built; only the router's own are replaced."""
    text = f"beacon-file-{0:032x}"

    files = FILES if given else ()
    body = (await sent(filled, {"prompt": text, **given}, dialect="modal", files=files))["body"]

    assert body["input"]["prompt"] == text
