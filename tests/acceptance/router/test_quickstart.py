"""The configurations of the quick start, as they are printed there, against servers that implement them."""

import re
import tomllib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI, Request
from starlette.responses import JSONResponse

from beacon_contracts.inference import InferenceState, InferenceView
from docs.examples import png_server
from tests.fixtures.app_server import app_server
from tests.fixtures.llama_server import llama_server, python_with_llama
from tests.fixtures.router import start_router

ROOT = Path(__file__).parents[3]
CONFIGURATIONS = {
    next(iter(tomllib.loads(block)["backends"])): block
    for block in re.findall(
        r"```toml\n(.+?)```", (ROOT / "docs" / "quickstart.md").read_text(encoding="utf-8"), re.DOTALL
    )
}
LLAMA = python_with_llama()


def test_all_configurations_of_the_page_are_tested() -> None:
    assert set(CONFIGURATIONS) == {"gpu", "painter", "studio", "my-gpu"}
    lines = CONFIGURATIONS["painter"].splitlines()
    assert len(lines) <= 6


async def inferred(backend: str, server: str, model: str, **environment: str) -> InferenceView:
    """The result of an inference by a router with the configuration of the page, at another address."""
    url = tomllib.loads(CONFIGURATIONS[backend])["backends"][backend]["url"]
    path = re.sub(r"https?://[^/]+", "", url)
    config = CONFIGURATIONS[backend].replace(url, server + path)
    async with start_router(config, **environment) as router:
        given = {"prompt": "once upon a time"}
        params = {"max_tokens": 8, "steps": 4}
        return await router.infer("r-1", model=model, region="LOCAL", given=given, params=params)


@asynccontextmanager
async def answering(path: str, answer: Mapping[str, Any], seen: list[Any]) -> AsyncIterator[str]:
    """A server with one endpoint; it records the headers and the body of each request."""
    app = FastAPI()

    @app.post(path)
    async def endpoint(request: Request) -> JSONResponse:
        seen.append((request.headers, await request.json()))
        return JSONResponse(dict(answer))

    async with app_server(app) as url:
        yield url


async def test_a_server_that_answers_an_image() -> None:
    async with app_server(png_server.app) as url:
        view = await inferred("painter", url, "painter")
    assert view.state is InferenceState.COMPLETED
    assert isinstance(view.output, dict)
    assert view.output["content_type"] == "image/png"


async def test_a_server_with_a_mapping() -> None:
    seen: list[Any] = []
    answer = {"result": {"image": "a-picture"}, "stats": {"run_s": 0.1}}
    async with answering("/v2/paint/run", answer, seen) as url:
        view = await inferred("studio", url, "paint")
    assert view.output == "a-picture"
    assert seen[0][1] == {"text": "once upon a time", "options": {"steps": 4, "sampler": "euler"}}


async def test_an_error_that_the_mapping_finds() -> None:
    async with answering("/v2/paint/run", {"error": {"message": "no prompt"}}, []) as url:
        view = await inferred_failure(url)
    assert view.failure is not None
    assert (view.failure.code, view.failure.message) == ("backend_error", "no prompt")


async def inferred_failure(url: str) -> InferenceView:
    view = await inferred("studio", url, "paint")
    assert view.state is InferenceState.FAILED
    return view


async def test_modal_with_its_secrets() -> None:
    seen: list[Any] = []
    answer = {"output": {"image": "x"}, "metrics": {"load_s": 0.0, "run_s": 0.1}}
    async with answering("/", answer, seen) as url:
        view = await inferred("my-gpu", url, "flux", MODAL_KEY="wk-1", MODAL_SECRET="ws-2")
    headers, body = seen[0]
    assert view.output == {"image": "x"}
    assert (headers["modal-key"], headers["modal-secret"]) == ("wk-1", "ws-2")
    assert body["model"] == "flux"
    assert body["input"] == {"prompt": "once upon a time"}


@pytest.mark.skipif(LLAMA is None, reason="llama.cpp is not installed: `make llama`")
async def test_llama_cpp_itself() -> None:
    assert LLAMA is not None
    with llama_server(LLAMA) as url:
        view = await inferred("gpu", url, "my-model")
    assert view.state is InferenceState.COMPLETED
    assert isinstance(view.output, str)
