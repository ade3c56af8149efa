"""ComfyUI: inputs by node and field, uploads, several instances as one queue, an old version of it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI, Request
from starlette.responses import JSONResponse, Response

from beacon_contracts.files import InputFile
from beacon_contracts.inference import InferenceState
from beacon_files import open_store
from tests.fixtures.app_server import app_server
from tests.fixtures.gpusim import Gpusim, start_gpusim
from tests.fixtures.router import Router, router_config, start_router
from tests.fixtures.waiting import until

GRAPH = {
    "4": {"class_type": "CheckpointLoaderSimple", "inputs": {"ckpt_name": "sdxl.safetensors"}},
    "6": {"class_type": "CLIPTextEncode", "inputs": {"text": "", "clip": ["4", 1]}},
    "10": {"class_type": "LoadImage", "inputs": {"image": ""}},
    "3": {"class_type": "KSampler", "inputs": {"seed": 7, "model": ["4", 0]}},
    "9": {"class_type": "SaveImage", "inputs": {"images": ["3", 0]}},
}
INPUTS = {"prompt": "6.text", "image": "10.image", "seed": "3.seed"}


def workflow(graph: dict[str, Any], inputs: dict[str, str]) -> dict[str, Any]:
    used = {target.partition(".")[0] for target in inputs.values()}
    kept = {name: node for name, node in graph.items() if name in used or name in ("3", "4", "9")}
    return {"workflow": {"graph": kept, "inputs": inputs}, "expected_load_s": 0.0, "expected_run_s": 0.1}


def config_of(urls: list[str], inputs: dict[str, str]) -> str:
    backends = {
        f"comfy-{number}": {"region": "LOCAL", "dialect": "comfyui", "url": url, "models": ["sdxl"]}
        for number, url in enumerate(urls, start=1)
    }
    return router_config(backends, models={"sdxl": workflow(GRAPH, inputs)}, attempts=1)


@pytest.fixture
async def gpu() -> AsyncIterator[Gpusim]:
    async with start_gpusim(region="LOCAL", slots=2, time_scale=0) as running:
        yield running


async def test_an_uploaded_image_and_the_fields_of_an_input_reach_their_nodes(
    gpu: Gpusim, tmp_path: Path
) -> None:
    async with start_router(
        config_of([f"{gpu.url}/comfyui"], INPUTS), BEACON_FILES_URL=str(tmp_path)
    ) as router:
        photo = b"\x89PNG\r\n\x1a\n" + b"photo" * 100
        view = await router.infer(
            "r-1",
            model="sdxl",
            region="LOCAL",
            given={"prompt": "with a hat", "image": {"file": "file_01k9x7p4f8q2r6s0t3v5w7y9za"}},
            params={"seed": 11},
            files=[await stored(tmp_path, photo)],
        )

    assert view.state is InferenceState.COMPLETED
    assert view.output["images"][0]["content_type"] == "image/png"
    assert [file.content_type for file in view.files] == ["image/png"]


async def stored(folder: Path, content: bytes) -> dict[str, Any]:
    """A file that an input names."""

    async def chunks() -> AsyncIterator[bytes]:
        yield content

    store = open_store(str(folder))
    await store.put("inputs/photo", chunks(), max_bytes=100_000)
    file = InputFile(
        id="file_01k9x7p4f8q2r6s0t3v5w7y9za",
        object="inputs/photo",
        name="photo.png",
        content_type="image/png",
        bytes=len(content),
    )
    return file.model_dump()


async def test_a_field_that_no_node_has_is_refused_before_anything_runs(gpu: Gpusim) -> None:
    async with start_router(config_of([f"{gpu.url}/comfyui"], {"prompt": "6.text"})) as router:
        view = await router.infer("r-1", model="sdxl", region="LOCAL", given={"prompt": "x", "style": "oil"})

    assert view.failure is not None
    assert view.failure.code == "unusable_input"
    assert "'style'" in view.failure.message
    assert "prompt" in view.failure.message
    assert await gpu.ledger() == []


async def test_several_instances_are_one_queue(gpu: Gpusim) -> None:
    async with start_gpusim(region="LOCAL", slots=1, time_scale=0) as other:
        urls = [f"{gpu.url}/comfyui", f"{other.url}/comfyui"]
        async with start_router(config_of(urls, {"prompt": "6.text"})) as router:
            await gpu.hold()
            await other.hold()
            for number in range(3):
                await begin(router, f"r-{number}")
            await gpu.wait_running(1)
            await other.wait_running(1)
            waiting = [await router.get(f"r-{number}") for number in range(3)]
            assert [view.position for view in waiting if view.position is not None] == [1]
            await gpu.release()
            await other.release()
            views = [await router.get(f"r-{number}", "wait=60") for number in range(3)]

    assert {view.state for view in views} == {InferenceState.COMPLETED}
    assert {view.backend for view in views} == {"comfy-1", "comfy-2"}


async def begin(router: Router, request_id: str) -> None:
    answer = await router.submit(request_id, model="sdxl", region="LOCAL", prefer="respond-async")
    assert answer.status_code == 202, answer.text


def comfyui_that(
    *, chooses_ids: bool = False, loses_answer: bool = False, answers: asyncio.Event | None = None
) -> tuple[FastAPI, list[Any]]:
    """ComfyUI without a WebSocket: the run has ended at the first poll, with an image and a text."""
    app = FastAPI()
    prompts: list[Any] = []

    @app.post("/prompt")
    async def prompt(request: Request) -> Response:
        body = await request.json()
        prompts.append(body)
        if answers is not None:
            await answers.wait()
        if loses_answer:
            return Response(status_code=504)
        return JSONResponse({"prompt_id": "its-own" if chooses_ids else body["prompt_id"]})

    @app.get("/history/{prompt_id}")
    async def history(prompt_id: str) -> Any:
        known = "its-own" if chooses_ids else (prompts[-1]["prompt_id"] if prompts else None)
        if prompt_id != known:
            return {}
        image = {"filename": "a b.png", "subfolder": "x", "type": "output"}
        preview = {"filename": "p.png", "subfolder": "", "type": "temp"}
        nodes = {"9": {"images": [image, preview]}, "12": {"text": ["a caption"]}}
        return {prompt_id: {"outputs": nodes, "status": {"status_str": "success", "messages": []}}}

    @app.get("/queue")
    async def queue() -> Any:
        return {"queue_running": [], "queue_pending": []}

    @app.get("/view")
    async def view(filename: str, subfolder: str, type: str) -> Response:  # noqa: A002
        assert (filename, subfolder, type) == ("a b.png", "x", "output")
        return Response(b"\x89PNG\r\n\x1a\nimage", media_type="image/png")

    return app, prompts


@pytest.mark.parametrize("chooses_ids", [True, False], ids=["an old ComfyUI", "a new one"])
async def test_files_texts_and_ids_of_a_run(chooses_ids: bool) -> None:
    app, prompts = comfyui_that(chooses_ids=chooses_ids, loses_answer=False)
    async with (
        app_server(app) as url,
        start_router(config_of([url], {"prompt": "6.text"})) as router,
    ):
        view = await router.infer("r-1", model="sdxl", region="LOCAL", given={"prompt": "a cat"})

    assert prompts[0]["prompt"]["6"]["inputs"] == {"text": "a cat", "clip": ["4", 1]}
    assert len(view.output["images"]) == 1
    assert [file.name for file in view.files] == ["a b.png"]
    assert view.output["text"] == ["a caption"]
    assert view.remote is not None
    client = prompts[0]["client_id"]
    assert view.remote.run_id == (f"its-own/{client}" if chooses_ids else client)


async def test_a_refused_workflow_names_its_nodes() -> None:
    """As ComfyUI 0.7 answers."""
    app = FastAPI()
    error = {"type": "value_smaller_than_min", "message": "Value 0 smaller than min of 1", "details": "steps"}
    refusal = {
        "error": {"type": "prompt_outputs_failed_validation", "message": "Prompt outputs failed validation"},
        "node_errors": {"3": {"errors": [error], "dependent_outputs": ["9"], "class_type": "KSampler"}},
    }

    @app.post("/prompt")
    async def prompt() -> Response:
        return JSONResponse(refusal, status_code=400)

    async with (
        app_server(app) as url,
        start_router(config_of([url], {"prompt": "6.text"})) as router,
    ):
        view = await router.infer("r-1", model="sdxl", region="LOCAL")

    assert view.failure is not None
    assert view.failure.code == "backend_refused"
    assert (
        view.failure.message == "the backend answered 400: KSampler (3): Value 0 smaller than min of 1: steps"
    )


async def test_a_run_whose_submission_was_not_answered_is_found_by_its_id() -> None:
    app, prompts = comfyui_that(chooses_ids=False, loses_answer=True)
    async with (
        app_server(app) as url,
        start_router(config_of([url], {"prompt": "6.text"})) as router,
    ):
        view = await router.infer("r-1", model="sdxl", region="LOCAL", given={"prompt": "a cat"})

    assert view.state is InferenceState.COMPLETED
    assert len(prompts) == 1


async def test_a_run_is_continued_whose_router_died_while_it_was_submitted() -> None:
    answers = asyncio.Event()
    app, prompts = comfyui_that(answers=answers)
    async with app_server(app) as url:
        config = config_of([url], {"prompt": "6.text"})
        async with start_router(config) as first:
            await begin(first, "r-1")
            await until(lambda: prompts, "it is submitted")
            remote = (await first.get("r-1")).remote
            first.process.kill()
        answers.set()
        assert remote is not None
        async with start_router(config) as second:
            view = await second.infer("r-1", model="sdxl", region="LOCAL", remote=remote.model_dump())

    assert view.state is InferenceState.COMPLETED
    assert len(prompts) == 1


async def test_a_run_is_continued_while_its_instance_takes_no_others() -> None:
    """Else the run of an instance that is gone would wait for it, although others could do the work."""
    app, prompts = comfyui_that()

    @app.get("/health")
    async def health() -> Response:
        return Response(status_code=503 if prompts else 200)

    async with app_server(app) as url:
        comfy = {"region": "LOCAL", "dialect": "comfyui", "url": url, "models": ["sdxl"]}
        config = router_config(
            {"comfy-1": comfy | {"health_url": f"{url}/health"}, "comfy-2": comfy},
            models={"sdxl": workflow(GRAPH, {"prompt": "6.text"})},
            health_every_s=0.05,
        )
        async with start_router(config) as router:
            first = await router.infer("r-1", model="sdxl", region="LOCAL")
            assert first.remote is not None

            async def down() -> bool:
                one, _ = (await router.queues())["regions"]["LOCAL"]["backends"]
                return bool(one["breaker"]["health_check"] == "down")

            await until(down, "the instance takes no work")
            again = await router.infer("r-2", model="sdxl", region="LOCAL", remote=first.remote.model_dump())

    assert (again.state, again.remote) == (InferenceState.COMPLETED, first.remote)
    assert len(prompts) == 1


@pytest.mark.parametrize("given", ["..", "/etc", "a b", "x" * 10_000, "", 7, None])
async def test_a_prompt_with_an_unusable_id_is_not_polled(given: object) -> None:
    app = FastAPI()

    @app.post("/prompt")
    async def prompt() -> Any:
        return {"prompt_id": given}

    async with (
        app_server(app) as url,
        start_router(config_of([url], {"prompt": "6.text"})) as router,
    ):
        view = await router.infer("r-1", model="sdxl", region="LOCAL")

    assert view.failure is not None
    assert view.failure.code == "submission_unanswered"
    assert "no usable prompt_id" in view.failure.message


async def test_a_history_that_is_lost_before_its_result_is_read_is_no_empty_result() -> None:
    """ComfyUI was restarted, or has dropped the oldest entry of its history."""
    app, prompts = comfyui_that(chooses_ids=False, loses_answer=False)
    asked: list[str] = []

    @app.middleware("http")
    async def forget(request: Request, call_next: Any) -> Response:
        if request.url.path.startswith("/history"):
            asked.append(request.url.path)
            if len(asked) > 1:
                return JSONResponse({})
        answer: Response = await call_next(request)
        return answer

    async with (
        app_server(app) as url,
        start_router(config_of([url], {"prompt": "6.text"})) as router,
    ):
        view = await router.infer("r-1", model="sdxl", region="LOCAL")

    assert len(prompts) == 1
    assert view.failure is not None
    assert view.failure.code == "run_unknown"
