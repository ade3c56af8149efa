"""Media of simulated GPUs, in each way of delivery and with faults of their bodies."""

from pathlib import Path
from typing import Any

import orjson
import pytest
from yarl import URL

from beacon_config.topology import Dialect
from beacon_files import FileStore, open_store
from beacon_router.backends import BackendError, BackendResult
from beacon_router.backends.output_urls import OutputUrls
from beacon_router.backends.wire import FileRules
from tests.fixtures.gpusim import Gpusim
from tests.integration.router.backend_calls import PATHS, backend_at, open_client, spec_of

IMAGE_BYTES = 300_000
MAX_BYTES = 2_000_000


async def run(gpu: Gpusim, store: FileStore, dialect: str, **media: Any) -> BackendResult:
    await gpu.set_models({"m": {"media": {"kind": "image", "min_bytes": IMAGE_BYTES, **media}}})
    async with open_client() as client:
        origin = URL(gpu.url + PATHS[Dialect(dialect)])
        files = FileRules(store, MAX_BYTES, urls=OutputUrls(client, origin, [], headers={}))
        backend = backend_at(dialect, gpu.url, client, files=files, max_response_bytes=1_000_000)
        return await backend.run(spec_of("r", "m", b'{"prompt":"cat","seed":3}'))


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    return open_store(str(tmp_path))


@pytest.fixture(autouse=True)
async def _text_again(gpu: Gpusim) -> None:
    await gpu.reset()


@pytest.mark.parametrize("dialect", ["modal", "execute"])
@pytest.mark.parametrize("delivery", ["binary", "base64", "data_url", "url"])
async def test_each_delivery_becomes_the_same_file(
    gpu: Gpusim, store: FileStore, dialect: str, delivery: str
) -> None:
    result = await run(gpu, store, dialect, delivery=delivery)
    [file] = result.files
    binary = await run(gpu, store, dialect, delivery="binary")
    assert (file.content_type, file.sha256) == ("image/png", binary.files[0].sha256)
    output = orjson.loads(result.output)
    assert file.id in (output.get("file"), *(one["file"] for one in output.values() if isinstance(one, dict)))


@pytest.mark.parametrize(
    ("fault", "delivery", "code"),
    [
        ({"kind": "truncated"}, "binary", "connection_lost"),
        ({"kind": "truncated"}, "base64", "connection_lost"),
        ({"kind": "mislabelled"}, "binary", "bad_payload"),
        ({"kind": "mislabelled"}, "base64", "bad_payload"),
        ({"kind": "huge", "size": 5_000_000}, "binary", "output_too_large"),
        ({"kind": "huge", "size": 5_000_000}, "base64", "output_too_large"),
        ({"kind": "endless"}, "binary", "output_too_large"),
        ({"kind": "endless"}, "base64", "bad_payload"),
        ({"kind": "no_body"}, "binary", "bad_payload"),
    ],
)
async def test_a_damaged_answer_is_named_and_leaves_nothing(
    gpu: Gpusim, store: FileStore, fault: dict[str, Any], delivery: str, code: str
) -> None:
    await gpu.add_fault(**fault)
    with pytest.raises(BackendError) as failed:
        await run(gpu, store, "modal", delivery=delivery)
    assert failed.value.code == code
    assert [one async for batch in store.list("outputs") for one in batch] == []
