"""Rules that hold for every route: the document, the query, the keys."""

import re
from collections import Counter
from typing import Any

import pytest

from beacon_contracts.api_keys import new_api_key
from beacon_runner.domain.errors import ApiKeyTakenError
from beacon_runner.http.auth import MAX_WRONG_KEYS, WRONG_KEYS_WINDOW_S
from tests.integration.runner_api.harness import GENERATION, WITHOUT_KEY, ApiHarness


async def test_operation_ids_are_the_names_of_client_methods(api: ApiHarness) -> None:
    document = await api.caller(None).get("/openapi.json")
    ids = [one["operationId"] for path in document["paths"].values() for one in path.values()]
    assert {"submit_job", "submit_batch", "get_job", "cancel_job", "retry_execution"} <= set(ids)
    assert all(re.fullmatch("[a-z]+(_[a-z]+)*", one) for one in ids)
    assert max(Counter(ids).values()) == 1


async def test_operations_have_one_tag_and_no_undocumented_response(api: ApiHarness) -> None:
    document = await api.caller(None).get("/openapi.json")
    for path, operations in document["paths"].items():
        for operation in operations.values():
            assert len(operation["tags"]) == 1, path
            assert (operation.get("security") == [{}]) is (path in WITHOUT_KEY), path
            for status, response in operation["responses"].items():
                if status == "204":  # it has no content
                    continue
                assert any("schema" in one and one["schema"] for one in response["content"].values()), (
                    path,
                    status,
                )


async def test_the_document_names_the_address_that_served_it(api: ApiHarness) -> None:
    document = await api.caller(None).get("/openapi.json")
    assert [server["url"] for server in document["servers"]] == ["/"]


async def test_the_documentation_page_loads_nothing_from_other_origins(api: ApiHarness) -> None:
    page = await api.caller(None).http.get("/docs")
    assert page.status_code == 200
    assert re.findall("https?://", page.text) == []
    for source in re.findall(r'(?:src|href)="(/[^"]+)"', page.text):
        assert (await api.caller(None).http.get(source)).status_code == 200, source


@pytest.mark.parametrize("path", ["/api/v1/jobs", "/api/v1/models", "/status", "/api/v1/me/ledger"])
async def test_an_unknown_query_parameter_is_named_in_a_422(api: ApiHarness, path: str) -> None:
    anna = await api.user()
    problem = await anna.get(path, 422, modell="flux")
    assert (problem["code"], problem["errors"][0]["field"]) == ("invalid_field", "modell")


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "2026-01-01"])
async def test_times_that_cannot_be_stored_are_refused(api: ApiHarness, moment: str) -> None:
    """One in a submission once failed all that shared its transaction."""
    admin = await api.admin()
    for path, name in (
        ("/api/v1/jobs", "created_after"),
        ("/api/v1/jobs", "created_before"),
        ("/api/v1/usage", "from"),
        ("/admin/usage", "to"),
        ("/admin/audit", "since"),
        ("/admin/audit", "until"),
    ):
        assert (await admin.get(path, 422, **{name: moment}))["errors"][0]["field"] == name
    user = (await admin.get("/api/v1/me"))["user_id"]
    bodies: list[tuple[str, Any]] = [
        ("/api/v1/jobs", GENERATION | {"not_before": moment}),
        ("/api/v1/jobs", GENERATION | {"expires_at": moment}),
        ("/api/v1/jobs/bulk", {"action": "cancel", "filter": {"created_before": moment}}),
        (f"/admin/users/{user}/keys", {"name": "late", "expires_at": moment}),
    ]
    for path, body in bodies:
        assert (await admin.post(path, body, 422))["code"] == "invalid_field"
    assert (await admin.get("/api/v1/jobs"))["jobs"] == []


async def test_wrong_keys_of_one_address_are_throttled(api: ApiHarness) -> None:
    anna = await api.user()
    await anna.get("/api/v1/me")
    for _ in range(MAX_WRONG_KEYS):
        await api.caller(new_api_key()).get("/api/v1/me", 401)
    refused = await api.caller(new_api_key()).http.get("/api/v1/me")
    assert (refused.status_code, refused.json()["code"]) == (429, "too_many_wrong_keys")
    assert int(refused.headers["retry-after"]) == WRONG_KEYS_WINDOW_S
    await anna.submit(GENERATION)  # a key that is known from this address still works
    await api.clock.advance(WRONG_KEYS_WINDOW_S + 1)
    await api.caller(new_api_key()).get("/api/v1/me", 401)


async def test_a_repeated_wrong_key_counts_once(api: ApiHarness) -> None:
    for _ in range(MAX_WRONG_KEYS + 1):
        await api.caller("bk_wrong").get("/api/v1/me", 401)
    await api.caller(new_api_key()).get("/api/v1/me", 401)


async def test_a_user_whose_first_key_cannot_be_stored_is_not_stored(api: ApiHarness) -> None:
    key = new_api_key()
    await api.users.add("anna", "free", key)
    with pytest.raises(ApiKeyTakenError):
        await api.users.add("bert", "free", key)
    assert [user.name for user in await api.users.page(None, 10)] == ["anna"]
