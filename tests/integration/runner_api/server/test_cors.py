"""Calls of web pages of other origins."""

import pytest

from beacon_config.api import ApiConfig
from tests.integration.runner_api.harness import CONFIG, ApiHarness, api_harness

PREFLIGHT = {"access-control-request-method": "POST", "access-control-request-headers": "authorization"}


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/api/v1/jobs"])
async def test_only_configured_origins_may_call(database_url: str, redis_url: str, path: str) -> None:
    api_config = ApiConfig(cors_origins=["https://app.example"])
    config = CONFIG.model_copy(update={"api": api_config})
    async with api_harness(database_url, redis_url, config) as api:
        anna = await api.user()
        answer = await anna.http.options(path, headers={"origin": "https://app.example", **PREFLIGHT})
        assert answer.status_code == 200
        assert answer.headers["access-control-allow-origin"] == "https://app.example"
        assert "POST" in answer.headers["access-control-allow-methods"]
        other = await anna.http.options(path, headers={"origin": "https://other.example", **PREFLIGHT})
        assert other.status_code == 400

        read = await anna.http.get("/v1/models", headers={"origin": "https://app.example"})
        assert read.headers["access-control-allow-origin"] == "https://app.example"
        assert "x-ratelimit-remaining-requests" in read.headers["access-control-expose-headers"]


async def test_without_configured_origins_there_are_no_headers(api: ApiHarness) -> None:
    anna = await api.user()
    answer = await anna.http.get("/v1/models", headers={"origin": "https://app.example"})
    assert "access-control-allow-origin" not in answer.headers
