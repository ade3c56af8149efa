"""Three services: an image bot, a music service with paid skips, a pipeline from a prompt to a 3D model."""

import asyncio
import io
import json
import struct
import wave
import zipfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from beacon_client import RunnerClient
from tests.acceptance.tiers.users import UserFactory, UserSession
from tests.fixtures.stack import RunningStack
from tests.fixtures.waiting import until

pytestmark = pytest.mark.stack
MEGABYTES_5 = 5_000_000


def generation(model: str, prompt: str, **more: Any) -> dict[str, Any]:
    return {
        "kind": "generation",
        "model": model,
        "prompt": prompt,
        "region": "US",
        "failover": "pinned",
        **more,
    }


async def content(user: UserSession, reference: dict[str, Any]) -> bytes:
    answer = await user.request("GET", reference["url"])
    assert answer.headers["content-type"] == reference["content_type"]
    assert len(answer.content) == reference["bytes"]
    return answer.raise_for_status().content


def text_in(image: bytes) -> str:
    """The prompt that the simulator has written into its image."""
    assert image.startswith(b"\x89PNG")
    start = image.index(b"Description\0\0\0\0\0") + len(b"Description\0\0\0\0\0")
    size = struct.unpack(">I", image[image.index(b"iTXt") - 4 : image.index(b"iTXt")])[0]
    return image[start : start + size - len(b"Description\0\0\0\0\0")].decode()


async def test_an_image_bot_has_a_queue_per_model_and_returns_the_images(
    users: UserFactory, stack: RunningStack, tmp_path: Path
) -> None:
    ada, bob = await users.new("creator"), await users.new("creator")
    await users.hold("flux")
    prompts = ["cat", "dog", "a lighthouse"]
    jobs = [await ada.submit(generation("flux", prompt)) for prompt in prompts]
    other = await bob.done(await bob.submit(generation("sdxl", "a tree")))
    assert other["status"] == "completed"  # flux is busy; sdxl has its own queue
    positions = [(await ada.job(job))["position"] for job in jobs[1:]]
    assert positions == sorted(positions)
    await users.release()
    done = [await ada.done(job) for job in jobs]
    outputs = [job["executions"][0]["output"] for job in done]
    images = [await content(ada, output) for output in outputs]
    assert [text_in(image) for image in images] == prompts
    calls = await users.calls(model="flux")
    assert all(before["ended"] <= after["started"] for before, after in pairwise(calls))

    foreign = await bob.request("GET", outputs[0]["url"])
    assert foreign.status_code == 404
    archive = await ada.request("GET", f"/api/v1/jobs/{jobs[0]}/files.zip")
    with zipfile.ZipFile(io.BytesIO(archive.content)) as files:
        assert [files.read(name) for name in files.namelist()] == [images[0]]
    async with RunnerClient(
        stack.url("runner"), ada.headers["Authorization"].removeprefix("Bearer ")
    ) as client:
        (saved,) = await client.save_outputs(jobs[1], tmp_path)
    assert await asyncio.to_thread(saved.path.read_bytes) == images[1]


async def test_sounds_have_their_duration_and_paid_ones_are_next(users: UserFactory) -> None:
    free, payer = await users.new("premium"), await users.new("premium", credit=10)
    await users.hold("music")
    first = await free.submit(generation("music", "rain", duration=20.0))
    await free.runs(first)
    waiting = [await free.submit(generation("music", f"rain {number}", duration=20.0)) for number in range(6)]
    paid = await payer.submit(generation("music", "a song", duration=25.5, loop=True))
    await until(lambda: payer.waits_at_router(paid), "the paid job waits at the router")
    skipped = await payer.request("POST", f"/api/v1/jobs/{paid}/skip")
    assert skipped.status_code == 200, skipped.text
    assert (skipped.json()["cost"], skipped.json()["credit"]) == (3, 7)  # 11 to 30 s cost 3
    too_long = await free.request("POST", "/api/v1/jobs", generation("music", "an opera", duration=500.0))
    assert too_long.status_code == 422
    await users.release()
    song = await payer.done(paid)
    for job in (first, *waiting):
        await free.done(job)

    sound = song["executions"][0]["output"]
    assert sound["content_type"].startswith("audio/")
    with wave.open(io.BytesIO(await content(payer, sound))) as played:
        assert played.getnframes() / played.getframerate() == 25.5
    part = await payer.http.get(
        payer.url + sound["url"], headers={**payer.headers, "Range": "bytes=1000-1999"}
    )
    assert (part.status_code, len(part.content)) == (206, 1_000)
    started = sorted(await users.calls(model="music"), key=lambda call: call["started"])
    # The run in progress and those on free slots were before it; nobody else was.
    ahead = [call["request_id"].split(".")[0] for call in started].index(paid.replace("job_", "exe_"))
    assert ahead <= 4


async def test_a_pipeline_passes_5_mb_between_its_steps_by_reference(users: UserFactory) -> None:
    user = await users.new("creator")
    media = {"kind": "image", "min_bytes": MEGABYTES_5}
    control = f"{users.stack.url('gpusim-us')}/control/models"
    (await users.http.put(control, json={"image_gen": {"media": media}})).raise_for_status()
    body = {"kind": "pipeline", "feature": "full_pipeline", "input": {"prompt": "Design a robot"}}
    job = await user.done(await user.submit(body))
    assert job["status"] == "completed", job
    steps = {execution["step"]: execution["output"] for execution in job["executions"]}
    assert steps["prompt_enhancer"]["enhanced_prompt"].startswith("Design a robot")
    image, model = steps["image_gen"], steps["model_3d_gen"]
    assert (image["content_type"], image["bytes"]) == ("image/png", MEGABYTES_5)
    assert model["content_type"] == "model/gltf-binary"
    assert len(json.dumps(job)) < 20_000  # references, not bytes

    document = glb_document(await content(user, model))
    assert document["asset"]["extras"]["inputs"]["image"] == {
        "bytes": MEGABYTES_5,
        "sha256": image["sha256"],
    }
    assert (await content(user, image)).startswith(b"\x89PNG")
    events = await user.events(job["job_id"])
    assert events.count("STEP_COMPLETE") == 4
    calls = [await users.calls(model=name) for name in steps]
    assert [len(found) for found in calls] == [1, 1, 1, 1]  # no step ran twice


def glb_document(data: bytes) -> Any:
    magic, _, total, size = struct.unpack("<4sIII", data[:16])
    assert (magic, total) == (b"glTF", len(data))
    return json.loads(data[20 : 20 + size])
