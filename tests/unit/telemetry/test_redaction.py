"""No secret reaches a log line, under any field name or nesting."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beacon_telemetry.redaction import REDACTED, is_secret, redact


@pytest.mark.parametrize(
    "name",
    [
        "Authorization",
        "authorization",
        "X-API-Key",
        "x_api_key",
        "api_key",
        "apikey",
        "key",
        "user_key",
        "token",
        "service_token",
        "SERVICE-TOKEN",
        "password",
        "db_password",
        "secret",
        "client_secret",
        "Cookie",
        "credentials",
    ],
)
def test_secret_names(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize(
    "name", ["max_tokens", "prompt_tokens", "monkey", "keyboard", "key_count", "job_id", "event", "tokenizer"]
)
def test_ordinary_names(name: str) -> None:
    assert not is_secret(name)


SECRET = "s3cr3t-value"


@pytest.mark.parametrize(
    "fields",
    [
        {"api_key": SECRET},
        {"api_key": [SECRET]},
        {"headers": {"Authorization": f"Bearer {SECRET}"}},
        {"headers": [(b"authorization", f"Bearer {SECRET}".encode())]},
        {"request": {"deep": [{"down": {"password": SECRET}}]}},
        {"event": f"called with Authorization: Bearer {SECRET}"},
        {"error": f"cannot reach postgresql://beacon:{SECRET}@db:5432/beacon"},
        {"urls": [f"redis://:{SECRET}@cache/0", "redis://cache/1"]},
        {"raw": f"bearer {SECRET}".encode()},
    ],
)
def test_a_secret_never_comes_through(fields: dict[str, Any]) -> None:
    shown = repr(redact(None, "info", dict(fields)))
    assert SECRET not in shown
    assert REDACTED in shown


def test_other_values_are_not_redacted() -> None:
    fields = {
        "event": "job_done",
        "max_tokens": 256,
        "url": "http://127.0.0.1:8000/x",
        "items": [1, "b"],
        "key": None,
    }
    assert redact(None, "info", dict(fields)) == fields


@given(
    st.dictionaries(
        st.text(max_size=8),
        st.recursive(
            st.none() | st.integers() | st.text(max_size=20) | st.binary(max_size=20),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.tuples(inner, inner)
                | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=3)
            ),
            max_leaves=8,
        ),
        max_size=4,
    )
)
def test_it_takes_whatever_is_logged(fields: dict[str, Any]) -> None:
    assert set(redact(None, "info", dict(fields))) == set(fields)
