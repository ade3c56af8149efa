"""A client that never reads an answer keeps its connection, and the answer, for no longer than others."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from beacon_contracts.ids import decode_job_id
from beacon_lifecycle.http_deadlines import ClientTimeouts
from tests.fixtures.waiting import until
from tests.integration.live.stalled import StalledClient, stream_request
from tests.integration.runner_api.bed import GENERATION, ApiBed, Caller, served
from tests.integration.runner_store.statements import MANY_EVENTS


@pytest.fixture
async def address(api: ApiBed, tmp_path: Path) -> AsyncIterator[str]:
    timeouts = ClientTimeouts(reader_s=0.2)
    async with served(api, api.transport.app, tmp_path, timeouts) as address:
        yield address


@pytest.mark.parametrize("after", ["", "connection: close\r\n"])
async def test_who_never_reads_a_plain_answer_is_cut_off(
    api: ApiBed, address: str, anna: Caller, after: str
) -> None:
    job = await anna.submit(GENERATION)
    await api.store.database.execute(MANY_EVENTS, decode_job_id(job), 500, 20_000)
    request = stream_request(anna, job).replace(b"accept: text/event-stream\r\n", after.encode())
    client = await StalledClient.to(address, request)
    await until(client.is_cut, "the server cuts the connection")
    client.close()
