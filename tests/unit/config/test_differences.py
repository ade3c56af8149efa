"""What two configurations differ in, and documents with secrets."""

from typing import Any

import pytest

from beacon_config import parse_document
from beacon_config.differences import Difference, differences, restart_needed
from beacon_config.secrets import literal_secrets

GPU = {"dialect": "openai", "url": "http://gpu:8080/v1", "models": ["m"]}


def document(**sections: Any) -> dict[str, Any]:
    return {"backends": {"gpu": GPU}, **sections}


def between(before: dict[str, Any], after: dict[str, Any]) -> list[Difference]:
    return differences(parse_document(before, {}), parse_document(after, {}))


def test_equal_documents_have_no_difference_whatever_they_leave_out() -> None:
    assert between(document(), document(router={"attempts": 3})) == []


def test_a_changed_key_has_its_value_before_and_after() -> None:
    drained = {"backends": {"gpu": {**GPU, "drain": True}}}
    assert between(document(), drained) == [Difference("backends.gpu.drain", False, True)]


def test_an_added_table_is_one_difference() -> None:
    (found,) = between(document(), {"backends": {"gpu": GPU, "gpu.2": GPU}})
    assert (found.key, found.before, found.after["slots"]) == ("backends.gpu.2", None, 1)


def test_the_order_of_the_tiers_is_a_difference() -> None:
    tiers: dict[str, Any] = {"one": {}, "two": {}}
    (found,) = between(document(tiers=tiers), document(tiers=dict(reversed(tiers.items()))))
    assert found == Difference("tiers", ["one", "two"], ["two", "one"])


def test_keys_that_apply_at_the_next_start_are_named() -> None:
    pools = {"high": {"slots": 7, "classes": ["high", "medium", "low"]}}
    found = between(document(), document(router={"attempts": 2, "connections": 7}, pools=pools))
    needed = restart_needed(found)
    assert "router.connections" in needed
    assert {"pools.high.slots", "pools.low"} <= set(needed)
    assert "router.attempts" not in needed


def test_secrets_in_clear_text_are_found() -> None:
    gpu = {
        **GPU,
        "headers": {"Modal-Key": "env:MODAL_KEY", "X-Token": "secret"},
        "basic_auth": "user:password",
        "proxy": "http://user:password@proxy:3128",
    }
    found = [key for key, _ in literal_secrets({"backends": {"gpu": gpu, "other": GPU}})]
    assert found == ["backends.gpu.headers.X-Token", "backends.gpu.basic_auth", "backends.gpu.proxy"]


@pytest.mark.parametrize("start", ["http://", "http:///", "http:/", "http:", "http:/\\", " HTTP://"])
@pytest.mark.parametrize("key", ["url", "health_url", "proxy"])
def test_a_login_in_an_address_is_found_as_the_client_reads_it(key: str, start: str) -> None:
    assert literal_secrets({"backends": {"gpu": {**GPU, key: f"{start}user:password@gpu:8080/v1"}}})


def test_a_key_without_a_value_is_no_secret() -> None:
    gpu = {**GPU, "basic_auth": None, "proxy": None, "health_url": None}
    assert literal_secrets({"backends": {"gpu": gpu}}) == []


def test_names_of_variables_and_a_proxy_without_a_password_are_no_secrets() -> None:
    gpu = {**GPU, "basic_auth": "env:LOGIN", "proxy": "http://proxy:3128"}
    assert literal_secrets({"backends": {"gpu": gpu}}) == []
