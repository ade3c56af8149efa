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
from tests.fixtures.gpusim import Gpusim, start_gpusim
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
PROVIDERS = {
    "replicate": (
        "https://api.replicate.com/v1",
        "/replicate",
        "black-forest-labs/flux-schnell",
        "REPLICATE_API_TOKEN",
    ),
    "runpod": ("https://api.runpod.ai/v2/your-endpoint-id", "/runpod/sdxl", "sdxl", "RUNPOD_API_KEY"),
    "fal": ("https://queue.fal.run", "/fal", "flux", "FAL_KEY"),
}
"""Of each preset: its address on the page, the path at the simulator, the model, the variable of the key."""


def test_all_configurations_of_the_page_are_tested() -> None:
    single = {"gpu", "painter", "studio", "my-gpu"}
    assert set(CONFIGURATIONS) == single | set(PROVIDERS) | {"comfy-1", "renderer"}
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


@pytest.fixture
async def gpu() -> AsyncIterator[Gpusim]:
    async with start_gpusim(region="LOCAL", slots=2, time_scale=0) as running:
        yield running


@pytest.mark.parametrize("preset", list(PROVIDERS))
async def test_a_provider_and_the_files_that_it_returns(preset: str, gpu: Gpusim) -> None:
    address, path, model, variable = PROVIDERS[preset]
    delivery = "data_url" if preset == "runpod" else "url"
    media = {"media": {"kind": "image", "delivery": delivery, "min_bytes": 100_000}}
    await gpu.set_models(dict.fromkeys((model, "fal-ai/flux/schnell"), media))
    config = CONFIGURATIONS[preset].replace(address, gpu.url + path)
    async with start_router(config, **{variable: "secret-1"}) as router:
        view = await router.infer("r-1", model=model, region="LOCAL", given={"prompt": "a lighthouse"})

    assert view.state is InferenceState.COMPLETED, view.failure
    assert [file.content_type for file in view.files] == ["image/png"]
    assert view.remote is not None
    assert [call["outcome"] for call in await gpu.ledger()] == ["completed"]


async def test_a_workflow_on_two_instances_of_comfyui(gpu: Gpusim) -> None:
    config = CONFIGURATIONS["comfy-1"].replace("http://127.0.0.1:8188", f"{gpu.url}/comfyui")
    config = config.replace("http://127.0.0.1:8189", f"{gpu.url}/comfyui")
    config = config.replace("examples/portrait.json", str(ROOT / "docs" / "examples" / "portrait.json"))
    async with start_router(config) as router:
        given = {"prompt": "a sailor", "negative": "hat", "seed": 11, "steps": 4, "width": 512, "height": 512}
        view = await router.infer("r-1", model="sdxl-portrait", region="LOCAL", given=given)

    assert [file.content_type for file in view.files] == ["image/png"]


async def test_a_provider_with_a_mapping() -> None:
    app, seen, states = FastAPI(), list[Any](), ["PENDING", "RENDERING", "DONE"]

    @app.post("/api/jobs")
    async def submit(request: Request) -> Any:
        seen.append((request.headers.get("idempotency-key"), await request.json()))
        return {"job": {"id": "j-7"}}

    @app.get("/api/jobs/j-7")
    async def job() -> Any:
        state = states.pop(0) if len(states) > 1 else states[0]
        return {"job": {"state": state, "percent_done": 40, "result": "a-film"}}

    async with app_server(app) as url:
        config = CONFIGURATIONS["renderer"].replace("https://render.example.com", url)
        async with start_router(config) as router:
            given, params = {"scene": "sea"}, {"quality": 3}
            view = await router.infer("r-1", model="blender", region="LOCAL", given=given, params=params)

    assert view.output == "a-film"
    ((key, body),) = seen
    assert key
    assert body == {"scene": "sea", "quality": 3}


@pytest.mark.skipif(LLAMA is None, reason="llama.cpp is not installed: `make llama`")
async def test_llama_cpp_itself() -> None:
    assert LLAMA is not None
    with llama_server(LLAMA) as url:
        view = await inferred("gpu", url, "my-model")
    assert view.state is InferenceState.COMPLETED
    assert isinstance(view.output, str)
