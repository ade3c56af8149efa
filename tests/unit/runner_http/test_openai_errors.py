"""Errors of `/v1` in OpenAI's format."""

import orjson
import pytest

from beacon_runner.domain.errors import QueueUnavailableError, StoreUnavailableError
from beacon_runner.http.openai.errors import error_reply


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (StoreUnavailableError("no connection"), "database_unavailable"),
        (QueueUnavailableError("no reply"), "queue_unavailable"),
    ],
)
def test_an_unavailable_server_asks_for_no_idempotency_key(error: Exception, code: str) -> None:
    reply = error_reply(error, "/v1/chat/completions")
    found = orjson.loads(reply.body)["error"]
    assert (reply.status, found["code"]) == (503, code)
    assert "retry later" in found["message"]
    assert "Idempotency-Key" not in found["message"]
    assert b"retry-after" in dict(reply.headers)
