"""Media over HTTP, in each way of delivery."""

import base64
import json

import pytest

from tests.fixtures.gpusim import Gpusim

CAT = {"prompt": "a cat", "seed": 3}


async def run(gpu: Gpusim, **media: object) -> tuple[str, bytes]:
    await gpu.set_models({"artist": {"media": {"kind": "image", **media}}})
    answer = await gpu.http.post("/modal", json={"model": "artist", "input": CAT})
    assert answer.status_code == 200
    return answer.headers["content-type"], answer.content


@pytest.mark.parametrize("min_bytes", [0, 300_000])
async def test_every_delivery_has_the_same_bytes(gpu: Gpusim, min_bytes: int) -> None:
    kind, image = await run(gpu, delivery="binary", min_bytes=min_bytes)
    assert kind == "image/png"
    assert len(image) >= max(1_000, min_bytes)
    _, plain = await run(gpu, delivery="base64", min_bytes=min_bytes)
    assert base64.b64decode(json.loads(plain)["output"]["image"]) == image
    _, data_url = await run(gpu, delivery="data_url", min_bytes=min_bytes)
    head, _, text = json.loads(data_url)["output"]["image"].partition(",")
    assert (head, base64.b64decode(text)) == ("data:image/png;base64", image)
    _, link = await run(gpu, delivery="url", min_bytes=min_bytes)
    fetched = await gpu.http.get(json.loads(link)["output"]["image_url"])
    assert (fetched.headers["content-type"], fetched.content) == ("image/png", image)


async def test_steps_of_pipelines_return_media_too(gpu: Gpusim) -> None:
    image = base64.b64encode(bytes(5_000)).decode()
    call = {"meta": {"service_name": "model_3d_gen"}, "payload": {"params": {"image": image}}}
    answer = await gpu.http.post("/v1/execute", json=call)
    assert answer.headers["content-type"] == "model/gltf-binary"
    assert b'"image":{"bytes":5000,' in answer.content


async def test_an_unknown_file_is_a_404(gpu: Gpusim) -> None:
    assert (await gpu.http.get("/media/flux.exe")).status_code == 404
    assert (await gpu.http.get("/media/flux.png?seed=x")).status_code == 422
