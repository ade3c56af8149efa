"""The dialect http: any endpoint, by a mapping of the configuration."""

import gzip
import zlib
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
from fastapi import FastAPI, Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response

from beacon_config.mappings import HttpMapping
from beacon_router.backends import BackendClient, BackendError
from tests.fixtures.app_server import app_server
from tests.integration.router.backend_calls import backend_at, open_client, spec_of


def studio() -> FastAPI:
    """A server with many kinds of answers."""
    app = FastAPI()

    @app.api_route("/echo/{model:path}", methods=["POST", "PUT", "GET"])
    async def echo(model: str, request: Request) -> JSONResponse:
        body = await request.body()
        return JSONResponse(
            {
                "model": model,
                "method": request.method,
                "query": dict(request.query_params),
                "sent": orjson.loads(body) if body else None,
                "stats": {"run_s": 1.5, "load_s": 0.5, "total_tokens": 7},
            },
            201,
        )

    @app.post("/failed")
    def failed() -> JSONResponse:
        return JSONResponse({"error": {"message": "the prompt is empty"}})

    @app.post("/text")
    def text() -> PlainTextResponse:
        return PlainTextResponse("once upon a time")

    @app.post("/nothing")
    def nothing() -> Response:
        return Response(status_code=204)

    @app.post("/accepted")
    def accepted() -> JSONResponse:
        return JSONResponse({"id": "run-1"}, 202)

    @app.post("/moved")
    def moved() -> RedirectResponse:
        return RedirectResponse("/text", 307)

    add_compressed(app)
    return app


def add_compressed(app: FastAPI) -> None:
    @app.post("/gzip")
    def compressed() -> Response:
        headers = {"content-encoding": "gzip"}
        return Response(gzip.compress(b'{"output": "yes"}'), headers=headers, media_type="application/json")

    @app.post("/bomb")
    def bomb() -> Response:
        headers = {"content-encoding": "gzip"}
        return Response(gzip.compress(b" " * 200_000_000, 9), headers=headers, media_type="application/json")

    @app.post("/garbled")
    def garbled() -> Response:
        headers = {"content-encoding": "deflate"}
        return Response(zlib.compress(b"{}")[:-4] + b"zzzz", headers=headers, media_type="application/json")


@pytest.fixture(scope="module")
def app() -> FastAPI:
    return studio()


@pytest.fixture
async def url(app: FastAPI) -> AsyncIterator[str]:
    async with app_server(app) as address:
        yield address


@pytest.fixture
async def client() -> AsyncIterator[BackendClient]:
    async with open_client() as opened:
        yield opened


async def output_of(
    client: BackendClient, url: str, given: dict[str, Any] | None = None, **mapping: Any
) -> Any:
    call = spec_of("exe/1", "a/b", orjson.dumps(given or {"prompt": "cat"}), params=b'{"steps":4}')
    backend = backend_at("http", url, client, mapping=HttpMapping(**mapping))
    return orjson.loads((await backend.run(call)).output)


async def error_of(client: BackendClient, url: str, **mapping: Any) -> BackendError:
    with pytest.raises(BackendError) as failed:
        await output_of(client, url, **mapping)
    return failed.value


async def test_input_and_params_are_the_body_and_the_answer_is_the_output(
    client: BackendClient, url: str
) -> None:
    output = await output_of(client, f"{url}/echo/x")
    assert output["sent"] == {"prompt": "cat", "steps": 4}


async def test_request_and_answer_are_mapped(client: BackendClient, url: str) -> None:
    mapped = {
        "text": "input.prompt",
        "options": {"steps": "params.steps", "seed": "params.seed", "sampler": "'euler'", "safe": True},
        "ids": ["request_id", 5],
    }
    sent = await output_of(
        client, url, path="/echo/{model}", method="PUT", request=mapped, output="[model, method, sent]"
    )
    assert sent == [
        "a/b",
        "PUT",
        {
            "text": "cat",
            "options": {"steps": 4, "sampler": "euler", "safe": True},
            "ids": ["exe/1", 5],
        },
    ]


async def test_a_get_sends_its_request_as_query(client: BackendClient, url: str) -> None:
    request = {"q": "input.prompt", "n": "params.steps"}
    query = await output_of(client, f"{url}/echo/x", method="GET", request=request, output="query")
    assert query == {"q": "cat", "n": "4"}


async def test_times_and_usage_are_read_from_the_answer(client: BackendClient, url: str) -> None:
    backend = backend_at("http", f"{url}/echo/x", client, mapping=HttpMapping(usage="stats"))
    result = await backend.run(spec_of("r", "m", b"{}"))
    assert (result.run_s, result.load_s, result.usage) == (1.5, 0.5, {"total_tokens": 7})


@pytest.mark.parametrize(
    ("path", "output"),
    [("/text", "once upon a time"), ("/nothing", None), ("/moved", "once upon a time")],
)
async def test_other_kinds_of_answers(path: str, output: object, client: BackendClient, url: str) -> None:
    assert await output_of(client, url + path) == output


async def test_an_answer_compressed_unasked_is_read(client: BackendClient, url: str) -> None:
    assert await output_of(client, f"{url}/gzip", output="output") == "yes"


@pytest.mark.parametrize("path", ["/bomb", "/garbled"])
async def test_an_answer_that_decompresses_beyond_bounds_is_refused(
    path: str, client: BackendClient, url: str
) -> None:
    error = await error_of(client, url + path)
    assert (error.code, error.retryable) == ("bad_payload", False)


@pytest.mark.parametrize(
    ("path", "mapping", "expected"),
    [
        ("/failed", {"error": "error.message"}, ("backend_error", "the prompt is empty")),
        ("/echo/x", {"output": "images[0]"}, ("bad_payload", "nothing at 'images[0]'")),
        ("/echo/x", {"output": "length(stats.total_tokens)"}, ("bad_payload", "does not fit")),
        ("/echo/x", {"request": {"n": "length(params.steps)"}}, ("unusable_input", "cannot be mapped")),
        ("/text", {"output": "text"}, ("bad_payload", "text/plain")),
        ("/accepted", {}, ("bad_payload", "202")),
    ],
)
async def test_each_answer_that_cannot_be_used_is_named(
    path: str, mapping: dict[str, Any], expected: tuple[str, str], client: BackendClient, url: str
) -> None:
    error = await error_of(client, url + path, **mapping)
    code, words = expected
    assert (error.code, error.retryable) == (code, False)
    assert words in error.message


async def test_an_accepted_answer_with_the_output_is_one(client: BackendClient, url: str) -> None:
    assert await output_of(client, f"{url}/accepted", output="id") == "run-1"
