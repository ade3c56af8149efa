"""Webhooks: allowed addresses and URLs, the schedule of attempts, signatures."""

from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from beacon_contracts.ids import DeliveryId, JobId, WebhookId, decode_job_id, new_uuid
from beacon_contracts.webhooks import DeliveryState
from beacon_runner.domain.webhooks.urls import is_allowed, url_problem
from beacon_runner.domain.webhooks.webhooks import (
    ATTEMPTS_AT_S,
    JITTER,
    Attempt,
    LeasedDelivery,
    headers,
    judge,
    message,
    new_secret,
    retry_delay_s,
)

NOW = datetime.now(UTC)
LOOPBACK = (ip_network("127.0.0.0/8"), ip_network("::1/128"))
PRIVATE = [
    "0.0.0.0",
    "10.1.2.3",
    "100.64.0.1",
    "127.0.0.1",
    "168.63.129.16",
    "169.254.169.254",
    "172.16.0.1",
    "192.0.0.192",
    "192.168.1.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::ffff:10.0.0.1",
    "::ffff:192.0.0.192",
    "64:ff9b::a00:1",
    "64:ff9b:1::a00:1",
    "2001:0:a00:1::",
    "2002:a00:1::",
    "fc00::1",
    "fe80::1",
    "fec0::1",
    "ff02::1",
]


def leased(attempt: int = 1, *, own_url: bool = False, secrets: tuple[str, ...] = ()) -> LeasedDelivery:
    return LeasedDelivery(
        DeliveryId(new_uuid()),
        WebhookId(new_uuid()),
        JobId(new_uuid()),
        "job.completed",
        "https://example.com/",
        own_url,
        {"status": "completed"},
        NOW,
        secrets,
        attempt,
        fence=1,
        late_s=0.0,
    )


@pytest.mark.parametrize("address", PRIVATE)
def test_a_private_address_is_not_allowed(address: str) -> None:
    assert not is_allowed(ip_address(address), ())


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1", "::ffff:8.8.8.8"])
def test_a_public_address_is_allowed(address: str) -> None:
    assert is_allowed(ip_address(address), ())


def test_the_allow_list_allows_only_its_networks() -> None:
    assert is_allowed(IPv4Address("127.0.0.1"), LOOPBACK)
    assert is_allowed(IPv6Address("::ffff:127.0.0.1"), LOOPBACK)
    assert not is_allowed(IPv4Address("10.0.0.1"), LOOPBACK)


@given(st.ip_addresses(v=4, network="10.0.0.0/8") | st.ip_addresses(v=6, network="fd00::/8"))
def test_no_address_of_a_private_network_is_allowed(address: IPv4Address | IPv6Address) -> None:
    assert not is_allowed(address, LOOPBACK)
    assert url_problem(f"https://{_host(address)}/hook", LOOPBACK) is not None


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.com/hook",
        "ftp://example.com/",
        "javascript:alert(1)",
        "http://",
        "https:///hook",
        "https://user:secret@example.com/",
        "https://example.com/#part",
        "https://example.com:0/",
        "https://example.com:99999/",
        "https://exämple.com/",
        "https://example.com/a b",
        "https://example.com\\@10.0.0.1/",
        "http://localhost:8000/",
        "http://api.localhost/",
        "http://127.0.0.1/",
        "http://[::1]/",
        "http://[::1/",
        "http://169.254.169.254/latest/meta-data",
        "http://2130706433/",
        "http://0x7f000001/",
        "http://0x7f.1/",
        "http://127.1/",
        "http://0177.0.0.1/",
        "http://127.0.0.1./",
        "http://[::ffff:7f00:1]/",
        "http://[fe80::1%25eth0]/",
        "https://../hook",
        "https://example..com/hook",
        f"https://{'a' * 64}.com/hook",
        f"https://{'a.' * 126}com/hook",
    ],
)
def test_an_invalid_url_is_explained(url: str) -> None:
    assert url_problem(url, ()) is not None


@pytest.mark.parametrize(
    "url",
    ["https://example.com/hook?a=1", "http://example.com:8080", "https://8.8.8.8/", "https://1.example/"],
)
def test_a_public_url_is_valid(url: str) -> None:
    assert url_problem(url, ()) is None


@given(st.text(max_size=60))
def test_any_text_is_a_url_or_has_a_problem(text: str) -> None:
    problem = url_problem(text, ())
    assert problem is None or problem


def test_attempts_span_a_day() -> None:
    delays = [retry_delay_s(attempt, 0.5) for attempt in range(1, len(ATTEMPTS_AT_S))]
    assert sum(delay for delay in delays if delay is not None) == pytest.approx(86_400)
    assert delays[0] == 5
    assert retry_delay_s(len(ATTEMPTS_AT_S), 0.5) is None


@given(st.integers(1, len(ATTEMPTS_AT_S) - 1), st.floats(0, 1, exclude_max=True))
def test_jitter_is_bounded(attempt: int, chance: float) -> None:
    exact, delay = retry_delay_s(attempt, 0.5), retry_delay_s(attempt, chance)
    assert exact is not None
    assert delay == pytest.approx(exact, rel=JITTER)


@pytest.mark.parametrize(
    ("status", "attempt", "own_url", "state", "disable"),
    [
        (200, 1, False, DeliveryState.DELIVERED, False),
        (204, 10, False, DeliveryState.DELIVERED, False),
        (302, 1, False, DeliveryState.PENDING, False),
        (500, 1, False, DeliveryState.PENDING, False),
        (None, 9, False, DeliveryState.PENDING, False),
        (503, 10, False, DeliveryState.FAILED, False),
        (410, 1, False, DeliveryState.FAILED, True),
        (410, 1, True, DeliveryState.FAILED, False),
    ],
)
def test_the_status_decides(
    status: int | None, attempt: int, own_url: bool, state: DeliveryState, disable: bool
) -> None:
    result = judge(leased(attempt, own_url=own_url), Attempt(NOW, 0.1, status), 0.5)
    assert (result.state, result.disable) == (state, disable)
    assert (result.retry_in_s is not None) == (state is DeliveryState.PENDING)


def test_every_valid_secret_verifies_the_message() -> None:
    new, old, other = (new_secret(bytes([number]) * 32) for number in range(3))
    delivery = leased(secrets=(new, old))
    body = message(delivery)
    sent = dict(headers(delivery, body, datetime.now(UTC)))
    for secret in (new, old):
        document = Webhook(secret).verify(body, sent)
        assert document["type"] == "job.completed"
        assert decode_job_id(document["data"]["job_id"]) == delivery.job
    with pytest.raises(WebhookVerificationError):
        Webhook(other).verify(body, sent)
    with pytest.raises(WebhookVerificationError):
        Webhook(new).verify(body + b" ", sent)


def test_an_old_message_is_signed_anew_with_the_same_body() -> None:
    secret = new_secret(b"x" * 32)
    delivery = leased(secrets=(secret,))
    first, second = message(delivery), message(delivery)
    assert first == second
    assert orjson.loads(first)["timestamp"].startswith(f"{NOW:%Y-%m-%dT%H:%M}")
    later = headers(delivery, first, NOW + timedelta(hours=5))
    assert later["webhook-id"] == headers(delivery, first, NOW)["webhook-id"]
    assert int(later["webhook-timestamp"]) - int(NOW.timestamp()) == 18_000


def _host(address: IPv4Address | IPv6Address) -> str:
    return f"[{address}]" if address.version == 6 else str(address)
