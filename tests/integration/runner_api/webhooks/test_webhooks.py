"""Webhooks over HTTP, delivered to a real receiver that verifies the signatures."""

import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from standardwebhooks.webhooks import WebhookVerificationError

from beacon_contracts.ids import DELIVERY, WEBHOOK, DeliveryId, WebhookId, decode_id
from beacon_lifecycle import SystemClock, WakeEvent
from beacon_runner.domain.errors import UnknownDeliveryError
from beacon_runner.domain.webhooks.webhooks import ATTEMPTS_AT_S
from beacon_runner.maintenance.webhook_delivery import PER_ENDPOINT, WebhookDelivery
from beacon_runner.maintenance.webhook_retention import WebhookRetention
from beacon_runner.metrics import WebhookMetrics
from beacon_runner.postgres.webhooks.deliveries import PostgresDeliveries
from beacon_runner.postgres.webhooks.endpoints import PostgresWebhooks
from beacon_runner.webhook_client import WebhookClient
from beacon_telemetry import new_registry
from tests.fixtures.waiting import within_timeout
from tests.fixtures.webhook_receiver import LOOPBACK, WebhookReceiver, webhook_receiver
from tests.integration.runner_api.harness import GENERATION, ApiHarness, Caller, api_harness

WEBHOOKS = "/api/v1/webhooks"
UNKNOWN = f"{WEBHOOKS}/webhook_01k9x7p4f8q2r6s0t3v5w7y9za"


@dataclass
class Relay:
    """Sends what is due when a test says so; a test moves due times instead of the clock."""

    api: ApiHarness
    client: WebhookClient

    def delivery(self) -> WebhookDelivery:
        queue = PostgresDeliveries(self.api.store.database)
        return WebhookDelivery(queue, self.client, WebhookMetrics(new_registry()), WakeEvent())

    async def send(self) -> int:
        """Everything that is due, until it has ended."""
        delivery = self.delivery()
        count = (await delivery.run_once()).count
        async with within_timeout("the requests end"):
            await delivery.idle()
        return count

    async def make_due(self) -> None:
        await self.api.store.database.execute(
            "UPDATE webhook_deliveries SET due_at = now() WHERE due_at IS NOT NULL"
        )


@pytest.fixture
async def api(database_url: str, redis_url: str) -> AsyncIterator[ApiHarness]:
    async with api_harness(database_url, redis_url, webhook_networks=LOOPBACK) as harness:
        yield harness


@pytest.fixture
async def relay(api: ApiHarness) -> AsyncIterator[Relay]:
    client = WebhookClient(LOOPBACK, SystemClock())
    yield Relay(api, client)
    await client.close()


@pytest.fixture
async def receiver() -> AsyncIterator[WebhookReceiver]:
    async with webhook_receiver() as running:
        yield running


async def create(caller: Caller, receiver: WebhookReceiver, path: str = "/hook", **more: Any) -> Any:
    return await caller.post(WEBHOOKS, {"url": receiver.url + path, **more}, 201)


async def deliveries(caller: Caller, webhook: Any) -> Any:
    return (await caller.get(f"{WEBHOOKS}/{webhook['id']}/deliveries"))["deliveries"]


async def end_job(api: ApiHarness, caller: Caller, **more: Any) -> str:
    job_id = await caller.submit({**GENERATION, **more})
    await api.run("a cat")
    return job_id


async def test_the_end_of_a_job_is_sent_and_verified(
    api: ApiHarness, anna: Caller, relay: Relay, receiver: WebhookReceiver
) -> None:
    webhook = await create(anna, receiver)
    job_id = await end_job(api, anna, name="my cat")
    assert await relay.send() == 1
    (request,) = receiver.received
    document = request.verified(webhook["secret"])
    assert document["type"] == "job.completed"
    assert document["data"] == {
        "job_id": job_id,
        "kind": "generation",
        "name": "my cat",
        "status": "completed",
    }
    (delivery,) = await deliveries(anna, webhook)
    assert (delivery["id"], delivery["state"], delivery["data"]) == (
        request.id,
        "delivered",
        document["data"],
    )
    (attempt,) = delivery["attempts"]
    assert (attempt["status"], attempt["error"]) == (204, None)
    assert attempt["duration_s"] >= 0
    await relay.make_due()
    assert await relay.send() == 0


async def test_the_secret_is_shown_only_when_it_is_made(anna: Caller, receiver: WebhookReceiver) -> None:
    webhook = await create(anna, receiver, description="mine")
    assert webhook["secret"].startswith("whsec_")
    shown = [await anna.get(f"{WEBHOOKS}/{webhook['id']}"), *(await anna.get(WEBHOOKS))["webhooks"]]
    assert all(webhook["secret"] not in str(one) and "secret" not in one for one in shown)
    assert shown[0] == shown[1]
    assert shown[0]["description"] == "mine"


async def test_both_secrets_sign_while_one_is_rotated(
    api: ApiHarness, anna: Caller, relay: Relay, receiver: WebhookReceiver
) -> None:
    webhook = await create(anna, receiver)
    rotated = await anna.post(f"{WEBHOOKS}/{webhook['id']}/rotate")
    assert rotated["secret"] != webhook["secret"]
    await anna.post(f"{WEBHOOKS}/{webhook['id']}/test", status=202)
    await relay.send()
    for secret in (webhook["secret"], rotated["secret"]):
        assert receiver.received[0].verified(secret)["type"] == "webhook.test"
    await api.store.database.execute("UPDATE webhook_endpoints SET previous_until = now()")
    await anna.post(f"{WEBHOOKS}/{webhook['id']}/test", status=202)
    await relay.send()
    assert receiver.received[1].verified(rotated["secret"])
    with pytest.raises(WebhookVerificationError):
        receiver.received[1].verified(webhook["secret"])


async def test_a_failed_delivery_is_repeated_with_the_same_id(
    anna: Caller, relay: Relay, receiver: WebhookReceiver
) -> None:
    receiver.statuses["/hook"] = [500, 302, 307, 429]
    webhook = await create(anna, receiver)
    await anna.post(f"{WEBHOOKS}/{webhook['id']}/test", status=202)
    for _ in range(5):
        assert await relay.send() == 1
        assert await relay.send() == 0, "it waits for its next attempt"
        await relay.make_due()
    assert len({request.id for request in receiver.received}) == 1
    assert len({request.body for request in receiver.received}) == 1
    assert {request.path for request in receiver.received} == {"/hook"}, "redirects are not followed"
    (delivery,) = await deliveries(anna, webhook)
    assert [one["status"] for one in delivery["attempts"]] == [500, 302, 307, 429, 204]
    assert delivery["state"] == "delivered"


async def test_the_last_attempt_fails_the_delivery_and_a_replay_starts_again(
    anna: Caller, relay: Relay, receiver: WebhookReceiver
) -> None:
    receiver.statuses["/hook"] = [503] * len(ATTEMPTS_AT_S)
    webhook = await create(anna, receiver)
    test = await anna.post(f"{WEBHOOKS}/{webhook['id']}/test", status=202)
    for _ in ATTEMPTS_AT_S:
        assert await relay.send() == 1
        await relay.make_due()
    assert await relay.send() == 0
    (delivery,) = await deliveries(anna, webhook)
    assert (delivery["state"], delivery["next_attempt_at"]) == ("failed", None)
    path = f"{WEBHOOKS}/{webhook['id']}/deliveries/{test['id']}/replay"
    assert (await anna.post(path, status=202))["state"] == "pending"
    assert await relay.send() == 1
    (delivery,) = await deliveries(anna, webhook)
    assert (delivery["state"], len(delivery["attempts"])) == ("delivered", len(ATTEMPTS_AT_S) + 1)
    assert {request.id for request in receiver.received} == {test["id"]}


async def test_410_disables_the_endpoint(
    api: ApiHarness, anna: Caller, relay: Relay, receiver: WebhookReceiver
) -> None:
    receiver.statuses["/hook"] = [410]
    webhook = await create(anna, receiver)
    await end_job(api, anna)
    await relay.send()
    found = await anna.get(f"{WEBHOOKS}/{webhook['id']}")
    assert (found["disabled_at"] is not None, found["disabled_reason"]) == (True, "the receiver answered 410")
    await end_job(api, anna)
    assert [one["state"] for one in await deliveries(anna, webhook)] == ["failed"]
    enabled = await anna.post(f"{WEBHOOKS}/{webhook['id']}", {"disabled": False})
    assert (enabled["disabled_at"], enabled["disabled_reason"]) == (None, None)
    await end_job(api, anna)
    assert await relay.send() == 1


async def test_a_job_has_its_own_url(
    api: ApiHarness, anna: Caller, relay: Relay, receiver: WebhookReceiver
) -> None:
    receiver.statuses["/job"] = [410]
    job = await anna.job(await end_job(api, anna, webhook_url=f"{receiver.url}/job"))
    assert (job["webhook_url"], len(job["webhook_events"])) == (f"{receiver.url}/job", 5)
    (webhook,) = (await anna.get(WEBHOOKS))["webhooks"]
    assert webhook["url"] is None
    secret = (await anna.post(f"{WEBHOOKS}/{webhook['id']}/rotate"))["secret"]
    await relay.send()
    assert receiver.received[0].verified(secret)["type"] == "job.completed"
    body = {"webhook_url": f"{receiver.url}/job", "webhook_events": ["job.failed"]}
    await end_job(api, anna, **body)
    assert await relay.send() == 0
    await end_job(api, anna, webhook_url=f"{receiver.url}/job")
    assert await relay.send() == 1, "the 410 of one job's URL says nothing about another's"
    refused = await anna.post(f"{WEBHOOKS}/{webhook['id']}/test", status=422)
    assert "webhook_url of jobs" in refused["detail"]


async def test_a_slow_receiver_does_not_delay_others(
    api: ApiHarness, anna: Caller, relay: Relay, receiver: WebhookReceiver
) -> None:
    receiver.blocked.add("/slow")
    slow = await create(anna, receiver, "/slow")
    for _ in range(PER_ENDPOINT + 3):
        await anna.post(f"{WEBHOOKS}/{slow['id']}/test", status=202)
    delivery = relay.delivery()
    assert (await delivery.run_once()).count == PER_ENDPOINT
    async with within_timeout("the slow receiver has all of its requests"):
        await receiver.wait_for(PER_ENDPOINT)
    bert = await api.user("bert")
    quick = await create(bert, receiver, "/quick")
    await bert.post(f"{WEBHOOKS}/{quick['id']}/test", status=202)
    assert (await delivery.run_once()).count == 1
    async with within_timeout("the other receiver is called"):
        await receiver.wait_for(PER_ENDPOINT + 1)
    assert receiver.received[-1].path == "/quick"
    receiver.release.set()
    async with within_timeout("the requests end"):
        await delivery.idle()
    assert await relay.send() == 3


async def test_many_slow_receivers_do_not_delay_others(
    api: ApiHarness, anna: Caller, relay: Relay, receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have more deliveries than the relay may have requests."""
    monkeypatch.setattr("beacon_runner.maintenance.webhook_delivery.CONCURRENCY", 2 * PER_ENDPOINT)
    receiver.blocked.add("/slow")
    for _ in range(2):
        slow = await create(anna, receiver, "/slow")
        for _ in range(PER_ENDPOINT + 1):
            await anna.post(f"{WEBHOOKS}/{slow['id']}/test", status=202)
    delivery = relay.delivery()
    while (await delivery.run_once()).more:
        pass
    bert = await api.user("bert")
    quick = await create(bert, receiver, "/quick")
    await bert.post(f"{WEBHOOKS}/{quick['id']}/test", status=202)
    assert (await delivery.run_once()).count == 1
    receiver.release.set()
    async with within_timeout("the requests end"):
        await delivery.idle()
    assert [one.path for one in receiver.received].count("/quick") == 1


async def test_a_stopped_relay_leaves_its_deliveries_to_others(
    anna: Caller, relay: Relay, receiver: WebhookReceiver
) -> None:
    receiver.blocked.add("/hook")
    webhook = await create(anna, receiver)
    await anna.post(f"{WEBHOOKS}/{webhook['id']}/test", status=202)
    delivery = relay.delivery()
    await delivery.run_once()
    async with within_timeout("the request arrives"):
        await receiver.wait_for(1)
    await delivery.close(0.0)
    receiver.blocked.clear()
    assert await relay.send() == 1
    first, second = receiver.received
    assert (first.id, first.body) == (second.id, second.body)


async def test_a_frozen_relay_records_nothing(
    anna: Caller, relay: Relay, receiver: WebhookReceiver, api: ApiHarness
) -> None:
    receiver.blocked.add("/hook")
    receiver.statuses["/hook"] = [200, 500]
    webhook = await create(anna, receiver)
    await anna.post(f"{WEBHOOKS}/{webhook['id']}/test", status=202)
    frozen = relay.delivery()
    await frozen.run_once()
    async with within_timeout("the request arrives"):
        await receiver.wait_for(1)
    await relay.make_due()  # its lease has ended
    receiver.blocked.clear()
    assert await relay.send() == 1
    receiver.release.set()
    async with within_timeout("the frozen relay continues"):
        await frozen.idle()
    (delivery,) = await deliveries(anna, webhook)
    assert [one["status"] for one in delivery["attempts"]] == [200]
    assert delivery["state"] == "delivered"


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("ftp://example.com", "must begin with"),
        ("http://10.0.0.1/", "not a public address"),
        ("http://169.254.169.254/latest/meta-data", "not a public address"),
        ("http://[::ffff:10.0.0.1]/", "not a public address"),
        ("https://user:pw@example.com/", "no user and password"),
    ],
)
async def test_an_invalid_url_is_refused_without_effect(anna: Caller, url: str, reason: str) -> None:
    for path, body in (
        (WEBHOOKS, {"url": url}),
        ("/api/v1/jobs", {**GENERATION, "webhook_url": url}),
        ("/api/v1/jobs/batch", {"jobs": [GENERATION, {**GENERATION, "webhook_url": url}]}),
    ):
        problem = await anna.post(path, body, 422)
        assert reason in problem["detail"]
        assert "url" in problem["errors"][0]["field"]
    assert (await anna.get(WEBHOOKS))["webhooks"] == []
    assert (await anna.get("/api/v1/jobs"))["jobs"] == []


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"url": ""},
        {"url": "https://example.com", "events": []},
        {"url": "https://example.com", "events": ["job.started"]},
        {"url": "https://example.com", "secret": "whsec_chosen"},
        {"url": "https://example.com\u0000"},
        {"url": "https://example.com/" + "a" * 2_000},
    ],
)
async def test_an_invalid_webhook_is_refused(anna: Caller, body: Any) -> None:
    assert (await anna.post(WEBHOOKS, body, 422))["errors"]
    assert (await anna.get(WEBHOOKS))["webhooks"] == []


async def test_events_without_a_url_are_refused(anna: Caller) -> None:
    problem = await anna.post("/api/v1/jobs", {**GENERATION, "webhook_events": ["job.failed"]}, 422)
    assert problem["errors"][0]["field"] == "webhook_events"


async def test_the_number_of_webhooks_is_limited(anna: Caller, receiver: WebhookReceiver) -> None:
    for number in range(10):
        await create(anna, receiver, f"/{number}")
    problem = await anna.post(WEBHOOKS, {"url": receiver.url}, 409)
    assert problem["code"] == "too_many_webhooks"


async def test_names_are_resolved_once_and_checked(
    anna: Caller, relay: Relay, api: ApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve_names(monkeypatch, {"private.example": ("10.0.0.1", "::ffff:10.0.0.1", "fd00::1")})
    webhook = await anna.post(WEBHOOKS, {"url": "http://localhost:9/"}, 201)
    await anna.post(f"{WEBHOOKS}/{webhook['id']}/test", status=202)
    client = WebhookClient((), SystemClock())
    try:
        await Relay(api, client).send()
        await anna.post(f"{WEBHOOKS}/{webhook['id']}", {"url": "http://private.example:9/"})
        await relay.make_due()
        await Relay(api, client).send()
    finally:
        await client.close()
    (delivery,) = await deliveries(anna, webhook)
    assert [one["error"] for one in delivery["attempts"]] == [
        "localhost (127.0.0.1) is not a public address: webhooks are sent to public addresses only",
        "the host resolves to an address that is not public",
    ]


def resolve_names(monkeypatch: pytest.MonkeyPatch, known: dict[str, tuple[str, ...]]) -> None:
    """As a name server would that the receiver controls."""
    resolve = socket.getaddrinfo

    def addresses(host: str, *rest: Any) -> Any:
        return [found for one in known.get(host, (host,)) for found in resolve(one, *rest)]

    monkeypatch.setattr(socket, "getaddrinfo", addresses)


async def test_only_allowed_addresses_of_a_name_are_connected_to(
    anna: Caller, receiver: WebhookReceiver, relay: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = int(receiver.url.rpartition(":")[2])
    resolve_names(monkeypatch, {"two.example": ("10.0.0.1", "127.0.0.1")})
    webhook = await anna.post(WEBHOOKS, {"url": f"http://two.example:{port}/hook"}, 201)
    await anna.post(f"{WEBHOOKS}/{webhook['id']}/test", status=202)
    await relay.send()
    (request,) = receiver.received
    assert request.headers["Host"] == f"two.example:{port}"
    assert request.verified(webhook["secret"])


async def test_an_unexpected_error_is_an_attempt(
    anna: Caller, receiver: WebhookReceiver, relay: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would otherwise be sent again at the end of each lease, forever."""
    webhook = await create(anna, receiver)
    await anna.post(f"{WEBHOOKS}/{webhook['id']}/test", status=202)

    def broken(*_: object) -> bytes:
        raise IndexError

    with monkeypatch.context() as patch:
        patch.setattr("beacon_runner.webhook_client.message", broken)
        await relay.send()
    (delivery,) = await deliveries(anna, webhook)
    assert [one["error"] for one in delivery["attempts"]] == ["the request could not be sent"]
    assert delivery["state"] == "pending"
    assert await relay.send() == 0, "it waits for its next attempt"


async def test_a_receiver_that_is_gone_is_explained(anna: Caller, relay: Relay) -> None:
    for url in ("http://127.0.0.1:9/", "https://beacon-webhooks.invalid/"):
        webhook = await anna.post(WEBHOOKS, {"url": url}, 201)
        await anna.post(f"{WEBHOOKS}/{webhook['id']}/test", status=202)
    await relay.send()
    found = (await anna.get(WEBHOOKS))["webhooks"]
    errors = [(await deliveries(anna, one))[0]["attempts"][0]["error"] for one in found]
    assert errors == ["the connection failed", "the host cannot be resolved"]


async def test_a_receiver_that_does_not_answer_times_out(
    api: ApiHarness, anna: Caller, receiver: WebhookReceiver
) -> None:
    receiver.blocked.add("/hook")
    webhook = await create(anna, receiver)
    await anna.post(f"{WEBHOOKS}/{webhook['id']}/test", status=202)
    client = WebhookClient(LOOPBACK, SystemClock(), timeout_s=0.2)
    try:
        await Relay(api, client).send()
    finally:
        await client.close()
    ((attempt,),) = [one["attempts"] for one in await deliveries(anna, webhook)]
    assert attempt["error"] == "no response within 0.2 s"


async def test_another_users_webhook_is_unknown(
    api: ApiHarness, anna: Caller, receiver: WebhookReceiver
) -> None:
    webhook = await create(anna, receiver)
    test = await anna.post(f"{WEBHOOKS}/{webhook['id']}/test", status=202)
    bert = await api.user("bert")
    for base in (f"{WEBHOOKS}/{webhook['id']}", UNKNOWN):
        for method, path, body in (
            ("GET", base, None),
            ("POST", base, {"disabled": True}),
            ("DELETE", base, None),
            ("POST", f"{base}/rotate", None),
            ("POST", f"{base}/test", None),
            ("GET", f"{base}/deliveries", None),
            ("POST", f"{base}/deliveries/{test['id']}/replay", None),
        ):
            response = await bert.http.request(method, path, json=body)
            assert (response.status_code, response.json()["code"]) == (404, "unknown_webhook"), path
    assert (await bert.get(WEBHOOKS))["webhooks"] == []
    await bert.get(WEBHOOKS, 403, user=webhook["user_id"])
    own = await create(bert, receiver)
    problem = await bert.post(f"{WEBHOOKS}/{own['id']}/deliveries/{test['id']}/replay", status=404)
    assert problem["code"] == "unknown_delivery"


async def test_an_administrator_sees_and_disables(
    anna: Caller, admin: Caller, receiver: WebhookReceiver
) -> None:
    webhook = await create(anna, receiver)
    (seen,) = (await admin.get(WEBHOOKS, user=webhook["user_id"]))["webhooks"]
    assert seen["id"] == webhook["id"]
    await admin.post(f"{WEBHOOKS}/{webhook['id']}", {"disabled": True})
    found = await anna.get(f"{WEBHOOKS}/{webhook['id']}")
    assert found["disabled_reason"] == "disabled by an administrator"


async def test_a_webhook_disabled_by_an_administrator_stays_disabled(
    api: ApiHarness, anna: Caller, admin: Caller, relay: Relay, receiver: WebhookReceiver
) -> None:
    webhook = await create(anna, receiver)
    base = f"{WEBHOOKS}/{webhook['id']}"
    test = await anna.post(f"{base}/test", status=202)
    await anna.post(base, {"disabled": True})
    await admin.post(base, {"disabled": True})
    replay = f"{base}/deliveries/{test['id']}/replay"
    for method, path, body in (
        ("POST", base, {"disabled": False}),
        ("POST", base, {"disabled": True}),
        ("POST", base, {"url": receiver.url + "/other"}),
        ("DELETE", base, None),
        ("POST", f"{base}/rotate", None),
        ("POST", f"{base}/test", None),
        ("POST", replay, None),
    ):
        response = await anna.http.request(method, path, json=body)
        assert (response.status_code, response.json()["code"]) == (409, "webhook_locked"), path
    found = await anna.get(base)
    assert (found["disabled_reason"], found["url"]) == ("disabled by an administrator", webhook["url"])
    await end_job(api, anna)
    assert await relay.send() == 0
    await admin.post(base, {"disabled": False})
    await anna.post(base, {"disabled": True})
    assert (await anna.post(base, {"disabled": False}))["disabled_at"] is None


async def test_a_webhook_is_changed_and_deleted(
    api: ApiHarness, anna: Caller, relay: Relay, receiver: WebhookReceiver
) -> None:
    webhook = await create(anna, receiver)
    path = f"{WEBHOOKS}/{webhook['id']}"
    changed = await anna.post(path, {"url": f"{receiver.url}/new", "events": ["job.failed", "job.failed"]})
    assert (changed["url"], changed["events"]) == (f"{receiver.url}/new", ["job.failed"])
    await anna.post(path, {"url": "http://10.0.0.1"}, 422)
    await anna.post(f"{path}/test", status=202)
    assert (await anna.http.delete(path)).status_code == 200
    await anna.get(path, 404)
    assert (await anna.get(WEBHOOKS))["webhooks"] == []
    assert await relay.send() == 0, "the pending test has ended"
    queue = PostgresDeliveries(api.store.database)
    assert (await WebhookRetention(queue, lambda: 3_600).run_once()).count == 1
    tables = "SELECT (SELECT count(*) FROM webhook_endpoints), (SELECT count(*) FROM webhook_deliveries)"
    assert tuple(await api.store.database.fetchrow(tables) or ()) == (0, 0)


async def test_nothing_is_sent_to_a_webhook_that_was_deleted(
    api: ApiHarness, anna: Caller, relay: Relay, receiver: WebhookReceiver
) -> None:
    """Also not an event whose transaction began before: its delivery has no secret."""
    webhook = await create(anna, receiver)
    path = f"{WEBHOOKS}/{webhook['id']}"
    test = await anna.post(f"{path}/test", status=202)
    await relay.send()
    (await anna.http.delete(path)).raise_for_status()
    await anna.post(f"{path}/deliveries/{test['id']}/replay", status=404)
    await anna.post(f"{path}/test", status=404)
    store = PostgresWebhooks(api.store.database)
    with pytest.raises(UnknownDeliveryError):  # deleted after it was found
        await store.replay(
            WebhookId(decode_id(WEBHOOK, webhook["id"])), None, DeliveryId(decode_id(DELIVERY, test["id"]))
        )
    await api.store.database.execute(
        "UPDATE webhook_deliveries SET state = 'pending', due_at = now(), leased = false"
    )
    assert await relay.send() == 0
    assert len(receiver.received) == 1


async def test_old_deliveries_are_paged_and_removed(
    api: ApiHarness, anna: Caller, receiver: WebhookReceiver, relay: Relay
) -> None:
    webhook = await create(anna, receiver)
    sent = [(await anna.post(f"{WEBHOOKS}/{webhook['id']}/test", status=202))["id"] for _ in range(5)]
    path, cursor, found = f"{WEBHOOKS}/{webhook['id']}/deliveries", None, []
    while True:
        page = await anna.get(path, **({"limit": 2} | ({"cursor": cursor} if cursor else {})))
        found += [one["id"] for one in page["deliveries"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert found == sorted(sent, reverse=True)
    await anna.get(path, 422, cursor="file_01k9x7p4f8q2r6s0t3v5w7y9za")
    await relay.send()
    queue = PostgresDeliveries(api.store.database)
    assert (await WebhookRetention(queue, lambda: 3_600).run_once()).count == 0
    assert (await WebhookRetention(queue, lambda: -3_600).run_once()).count == 5
