from collections.abc import AsyncIterator

import pytest

from beacon_lifecycle.http_server import HttpServer
from beacon_runner.live import HttpLine, SocketLine
from tests.integration.runner_api.bed import ApiBed, api_bed

# Nothing here reads in the meantime, so what must not be hurried is only what comes before.
SLOW_AFTER_S = 0.5


@pytest.fixture
async def api(database_url: str, redis_url: str) -> AsyncIterator[ApiBed]:
    async with api_bed(database_url, redis_url, slow_after_s=SLOW_AFTER_S) as bed:
        yield bed


@pytest.fixture
async def address(api: ApiBed, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    """The same API on a real socket, with the protocols of the real process."""
    ready = tmp_path_factory.mktemp("runner") / "ready"
    server = HttpServer(
        api.transport.app,
        host="127.0.0.1",
        port=0,
        ready_file=ready,
        stop_grace_s=0.1,
        protocol=HttpLine,
        websockets=SocketLine,
    )
    await server.start()
    yield ready.read_text(encoding="utf-8")
    await server.stop()
