"""A refused WebSocket is the client's error: it gets a problem document, and no error is logged."""

import logging
from pathlib import Path

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from tests.integration.runner_api.harness import ApiHarness, served

JOB = "job_" + "0" * 26


@pytest.mark.parametrize(("key", "status"), [(None, 401), ("bk_wrong", 401)])
async def test_a_refused_websocket_is_not_logged_as_an_error(
    api: ApiHarness, tmp_path: Path, caplog: pytest.LogCaptureFixture, key: str | None, status: int
) -> None:
    headers = {} if key is None else {"authorization": f"Bearer {key}"}
    with caplog.at_level(logging.WARNING):
        async with served(api, api.transport.app, tmp_path) as url:
            with pytest.raises(InvalidStatus) as refused:
                async with connect(f"{url.replace('http', 'ws', 1)}/ws/{JOB}", additional_headers=headers):
                    pass
    assert refused.value.response.status_code == status
    assert refused.value.response.headers["content-type"] == "application/problem+json"
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []
