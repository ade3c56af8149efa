"""Every transition that ends a job adds the deliveries of its event in its own transaction."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import asyncpg
import pytest

from beacon_contracts.accounts import DisabledJobs
from beacon_contracts.api_keys import new_api_key
from beacon_contracts.ids import JobId, UserId, WebhookId, new_uuid
from beacon_contracts.webhooks import JOB_EVENTS, WebhookEvent
from beacon_runner.domain.execution.stage_result import StageReport
from beacon_runner.domain.execution.verdict import poison_verdict
from beacon_runner.domain.jobs.states import JOB_TRANSITIONS, TERMINAL, JobTransition
from beacon_runner.domain.jobs.submissions import Schedule
from beacon_runner.domain.webhooks.webhooks import EndpointChange, NewEndpoint, new_secret
from beacon_runner.postgres.accounts.users import PostgresUsers
from beacon_runner.postgres.jobs.schedule import PostgresSchedule
from beacon_runner.postgres.webhooks.deliveries import PostgresDeliveries
from beacon_runner.postgres.webhooks.endpoints import PostgresWebhooks
from tests.fixtures.waiting import until
from tests.integration.runner_store.harness import (
    GENERATION,
    MATRIX,
    MAX_DELIVERIES,
    NOW,
    StoreHarness,
    judged,
)
from tests.integration.runner_store.test_job_commands import STAYS_IDLE, waits_for_a_lock

URL = "https://example.com/hook"


async def add_user(harness: StoreHarness, name: str = "anna") -> UserId:
    return (await PostgresUsers(harness.database).add(name, "free", new_api_key())).id


async def add_endpoint(
    harness: StoreHarness, user: UserId, *events: WebhookEvent, url: str | None = URL
) -> WebhookId:
    new = NewEndpoint(WebhookId(new_uuid()), user, url, new_secret(b"x" * 32), events or JOB_EVENTS)
    return (await PostgresWebhooks(harness.database).add(new, 10)).id


async def events(harness: StoreHarness, webhook: WebhookId) -> list[str]:
    found = await PostgresWebhooks(harness.database).deliveries(webhook, None, 100)
    return [one.type for one in reversed(found)]


async def complete(harness: StoreHarness, user: UserId) -> JobId:
    job = await harness.submit(GENERATION, user=user)
    await harness.run(await harness.claim(), "a cat")
    return job


async def end_partial(harness: StoreHarness, user: UserId) -> JobId:
    job = await harness.submit(MATRIX, user=user)
    await harness.run(await harness.claim(), "a", "b", "c", "never")
    return job


async def fail(harness: StoreHarness, user: UserId) -> JobId:
    job = await harness.submit(GENERATION, user=user)
    await harness.run(await harness.claim(), "never")
    return job


async def poison(harness: StoreHarness, user: UserId) -> JobId:
    job = await harness.submit(GENERATION, user=user)
    messages = await harness.messages()
    for _ in range(MAX_DELIVERIES):
        await harness.claims.claim(messages, "w1")
    (claimed,) = await harness.claims.claim(messages, "w1")
    verdict = poison_verdict(claimed, MAX_DELIVERIES)
    assert await harness.claims.record([StageReport(claimed, (), verdict=verdict)]) == {job}
    return job


async def poison_partial(harness: StoreHarness, user: UserId) -> JobId:
    job = await harness.submit(MATRIX, user=user)
    claimed = await harness.claim()
    report = judged(claimed, "a", "b", "c", "d")
    await harness.claims.record([StageReport(claimed, report.executions[:1])])
    live = (await harness.live.live_page(None, 10))[0]
    for _ in range(MAX_DELIVERIES):
        await harness.claims.claim([live.message], "w1")
    (claimed,) = await harness.claims.claim([live.message], "w1")
    verdict = poison_verdict(claimed, MAX_DELIVERIES)
    assert await harness.claims.record([StageReport(claimed, (), verdict=verdict)]) == {job}
    return job


async def cancel_queued(harness: StoreHarness, user: UserId) -> JobId:
    job = await harness.submit(MATRIX, user=user)
    await harness.cancel(job, user)
    return job


async def cancel_processing(harness: StoreHarness, user: UserId) -> JobId:
    job = await harness.submit(MATRIX, user=user)
    await harness.claim()
    await harness.cancel(job, user)
    return job


async def cancel_retrying(harness: StoreHarness, user: UserId) -> JobId:
    job = await harness.submit(GENERATION, user=user)
    await harness.run(await harness.claim(), "later")
    await harness.cancel(job, user)
    return job


async def disable_user(harness: StoreHarness, user: UserId) -> JobId:
    job = await harness.submit(GENERATION, user=user)
    await PostgresUsers(harness.database).change(user, disabled=True, jobs=DisabledJobs.CANCEL)
    return job


async def expire(harness: StoreHarness, user: UserId) -> JobId:
    job = await harness.submit(GENERATION, user=user, schedule=Schedule(expires_at=NOW))
    assert [message.job for message in await PostgresSchedule(harness.database).expire(10)] == [job]
    return job


Ending = Callable[[StoreHarness, UserId], Awaitable[JobId]]
ENDINGS: list[tuple[JobTransition, Ending, str]] = [
    (JobTransition.ALL_COMPLETED, complete, "job.completed"),
    (JobTransition.SOME_FAILED, end_partial, "job.partial"),
    (JobTransition.ALL_FAILED, fail, "job.failed"),
    (JobTransition.POISON, poison, "job.failed"),
    (JobTransition.POISON, poison_partial, "job.partial"),
    (JobTransition.CANCELLED, cancel_queued, "job.cancelled"),
    (JobTransition.CANCELLED, cancel_processing, "job.cancelled"),
    (JobTransition.CANCELLED, cancel_retrying, "job.cancelled"),
    (JobTransition.CANCELLED, disable_user, "job.cancelled"),
    (JobTransition.EXPIRED, expire, "job.expired"),
]


def test_every_terminal_transition_is_in_the_table() -> None:
    terminal = {
        transition
        for transition, steps in JOB_TRANSITIONS.items()
        if any(new in TERMINAL for _, new in steps)
    }
    assert terminal == {transition for transition, _, _ in ENDINGS}


def test_every_final_state_has_an_event() -> None:
    assert {f"job.{state}" for state in TERMINAL} <= set(JOB_EVENTS)


@pytest.mark.parametrize(("transition", "end", "event"), ENDINGS)
async def test_the_end_of_a_job_adds_one_delivery(
    harness: StoreHarness, transition: JobTransition, end: Ending, event: str
) -> None:
    user = await add_user(harness)
    webhook = await add_endpoint(harness, user)
    others = await add_endpoint(harness, await add_user(harness, "bert"))
    job = await end(harness, user)
    (delivery,) = await PostgresWebhooks(harness.database).deliveries(webhook, None, 10)
    assert (delivery.type, delivery.job, delivery.url) == (event, job, URL)
    assert delivery.data["status"] == event.removeprefix("job.")
    assert await events(harness, others) == []


async def test_a_filter_selects_events(harness: StoreHarness) -> None:
    user = await add_user(harness)
    failures = await add_endpoint(harness, user, WebhookEvent.JOB_FAILED, WebhookEvent.EXECUTION_FAILED)
    completed = await add_endpoint(harness, user, WebhookEvent.JOB_COMPLETED)
    await complete(harness, user)
    await fail(harness, user)
    assert await events(harness, completed) == ["job.completed"]
    assert sorted(await events(harness, failures)) == ["execution.failed", "job.failed"]


async def test_each_failed_attempt_of_an_execution_is_an_event(harness: StoreHarness) -> None:
    user = await add_user(harness)
    webhook = await add_endpoint(harness, user, WebhookEvent.EXECUTION_FAILED)
    job = await harness.submit(GENERATION, user=user)
    for _ in range(2):
        await harness.run(await harness.claim(), "later")
    found = await PostgresWebhooks(harness.database).deliveries(webhook, None, 10)
    assert [(one.job, one.data["attempt"], one.data["retryable"]) for one in found] == [
        (job, 2, True),
        (job, 1, True),
    ]


async def test_a_resumed_job_ends_with_another_event(harness: StoreHarness) -> None:
    user = await add_user(harness)
    webhook = await add_endpoint(harness, user)
    job = await harness.submit(GENERATION, user=user)
    while (await harness.job(job)).head.finished_at is None:
        await harness.run(await harness.claim(), "later")
    await harness.published()
    await harness.jobs.resume(job, user)
    await harness.run(await harness.claim(), "a cat")
    assert await events(harness, webhook) == ["job.failed", "job.completed"]


async def test_a_disabled_endpoint_gets_nothing(harness: StoreHarness) -> None:
    user = await add_user(harness)
    webhook = await add_endpoint(harness, user)
    store = PostgresWebhooks(harness.database)
    await complete(harness, user)
    await store.change(webhook, user, EndpointChange(disabled=True, disabled_reason="test"))
    await complete(harness, user)
    (delivery,) = await store.deliveries(webhook, None, 10)
    assert (delivery.state, delivery.due_at) == ("failed", None)


async def test_a_job_that_ends_while_its_endpoint_is_disabled_sends_nothing(harness: StoreHarness) -> None:
    """The delivery is written before the endpoint is disabled, and committed after it."""
    user = await add_user(harness)
    webhook = await add_endpoint(harness, user)
    job = await harness.submit(GENERATION, user=user)
    store = PostgresWebhooks(harness.database)
    change = EndpointChange(disabled=True, disabled_reason="test")
    async with harness.database.transaction() as ending:
        await ending.execute(STAYS_IDLE)
        await ending.execute("UPDATE jobs SET state = 'cancelled', finished_at = now() WHERE id = $1", job)
        disabled = asyncio.create_task(store.change(webhook, user, change))

        async def waits_or_is_done() -> bool:
            return disabled.done() or await waits_for_a_lock(harness)

        await until(waits_or_is_done, "the change waits for the event")
    assert (await disabled).disabled_at is not None
    (delivery,) = await store.deliveries(webhook, None, 10)
    assert (delivery.state, delivery.due_at) == ("failed", None)


async def test_the_url_of_a_job_gets_its_events(harness: StoreHarness) -> None:
    user = await add_user(harness)
    own = await add_endpoint(harness, user, url=None)
    webhook = {"url": "https://example.com/job", "events": ["job.completed"]}
    await harness.submit(GENERATION, user=user, webhook=webhook)
    await harness.run(await harness.claim(), "a cat")
    await harness.submit(GENERATION, user=user, webhook=webhook)
    await harness.run(await harness.claim(), "never")
    await complete(harness, user)
    (delivery,) = await PostgresWebhooks(harness.database).deliveries(own, None, 10)
    assert (delivery.type, delivery.url) == ("job.completed", "https://example.com/job")


async def test_an_event_that_is_rolled_back_has_no_delivery(harness: StoreHarness) -> None:
    user = await add_user(harness)
    webhook = await add_endpoint(harness, user)
    await harness.submit(GENERATION, user=user)
    claimed = await harness.claim()
    stale = await harness.claims.claim([(await harness.live.live_page(None, 10))[0].message], "w2")
    assert await harness.claims.record([judged(claimed, "late")]) == frozenset()
    assert await events(harness, webhook) == []
    assert await harness.claims.record([judged(stale[0], "a cat")]) == {claimed.id}
    assert await events(harness, webhook) == ["job.completed"]


async def test_the_commit_notifies(harness: StoreHarness, database_url: str) -> None:
    user = await add_user(harness)
    connection = await asyncpg.connect(database_url)
    notified: list[str] = []
    try:
        await connection.add_listener("webhooks", lambda *seen: notified.append(seen[2]))
        await complete(harness, user)
        await connection.execute("SELECT 1")
        assert notified == [], "nobody waits for this event"
        await add_endpoint(harness, user)
        await complete(harness, user)
        await connection.execute("SELECT 1")
        assert notified == ["webhooks"]
    finally:
        await connection.close()


async def test_leases_are_bounded_per_endpoint_and_fair(harness: StoreHarness) -> None:
    anna, bert = await add_user(harness), await add_user(harness, "bert")
    slow, quick = await add_endpoint(harness, anna), await add_endpoint(harness, bert)
    for _ in range(5):
        await cancel_queued(harness, anna)
    await cancel_queued(harness, bert)
    deliveries = PostgresDeliveries(harness.database)
    first = await deliveries.lease(3, per_endpoint=2, lease_s=60)
    assert sorted(one.endpoint for one in first) == sorted([slow, slow, quick])
    assert await deliveries.lease(3, per_endpoint=2, lease_s=60) == []
    await cancel_queued(harness, bert)
    await deliveries.release([one for one in first if one.endpoint == slow][:1])
    second = await deliveries.lease(1, per_endpoint=2, lease_s=60)
    assert len(second) == 1


PAUSE = """
    CREATE FUNCTION pause() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN NULL; END $$;
    CREATE TRIGGER pause BEFORE UPDATE ON webhook_deliveries FOR EACH STATEMENT EXECUTE FUNCTION pause();
"""


async def test_relays_that_lease_at_once_keep_the_bound_of_an_endpoint(harness: StoreHarness) -> None:
    """The commit of an event wakes all of them: none may count before the leases of another are committed."""
    anna = await add_user(harness)
    await add_endpoint(harness, anna)
    for _ in range(5):
        await cancel_queued(harness, anna)
    await harness.database.execute(PAUSE)
    relays = [PostgresDeliveries(harness.database) for _ in range(2)]
    leases = []
    async with harness.database.transaction() as paused:
        await paused.execute(STAYS_IDLE)
        await paused.execute("SELECT pg_advisory_xact_lock(1)")
        for number, relay in enumerate(relays, 1):
            leases.append(asyncio.create_task(relay.lease(10, per_endpoint=2, lease_s=60)))
            await until(partial(waits_for_a_lock, harness, number), "the relay leases")
    assert sorted(len(found) for found in await asyncio.gather(*leases)) == [0, 2]
