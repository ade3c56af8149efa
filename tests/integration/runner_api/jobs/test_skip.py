"""Paid skips: price, effect, automatic refund."""

import asyncio
from collections import Counter
from itertools import accumulate
from typing import Any

import pytest

from beacon_contracts.ids import decode_job_id, encode_execution_id
from beacon_contracts.inference import InferenceState, InferenceView
from beacon_runner.domain.execution.stage_result import ClaimedJob, Dead
from beacon_runner.maintenance.cancel_notifier import CancelNotifier
from beacon_runner.postgres.accounts.credit import PostgresCredit
from beacon_runner.postgres.jobs.cancels import PostgresCancels
from beacon_runner.worker.run import build_run
from tests.integration.runner_api.harness import GENERATION, MATRIX, ApiHarness, Caller, api_harness
from tests.integration.runner_store.harness import MAX_DELIVERIES, POLICY, judged
from tests.integration.runner_store.statements import DUE_NOW, LONG_AGO, TRY_NOW

YEAR_S = 365 * 86_400
SONG = {"kind": "generation", "model": "music", "prompt": "a song", "region": "US"}


async def rich(api: ApiHarness, credit: int = 20, name: str = "anna", tier: str = "creator") -> Caller:
    caller = await api.user(name, tier)
    user = next(one for one in await api.users.page(None, 100) if one.name == name)
    if credit:
        await PostgresCredit(api.store.database).change(user.id, credit, "for the test")
    return caller


async def credit_of(caller: Caller) -> int:
    credit: int = (await caller.get("/api/v1/me"))["credit"]
    return credit


async def entries(caller: Caller) -> list[tuple[str, int]]:
    ledger = await caller.get("/api/v1/me/ledger")
    return [(entry["entry"], entry["amount"]) for entry in ledger["entries"]]


async def skip(caller: Caller, job_id: str, status: int = 200) -> Any:
    return await caller.post(f"/api/v1/jobs/{job_id}/skip", None, status)


@pytest.mark.parametrize(
    ("duration", "price"),
    [(1, 1), (10, 1), (11, 3), (30, 3), (31, 5), (60, 5), (61, 10), (120, 10), (121, 15), (180, 15)],
)
async def test_the_price_follows_the_duration(api: ApiHarness, duration: int, price: int) -> None:
    anna = await rich(api)
    job_id = await anna.submit(SONG | {"duration": duration})
    assert (await anna.job(job_id))["skip_price"] == price
    assert (await skip(anna, job_id))["cost"] == price


async def test_without_a_duration_the_price_follows_the_expected_run_time(api: ApiHarness) -> None:
    anna = await rich(api)
    questions = [{"id": f"q{number}", "prompt": "?"} for number in range(100)]
    job_id = await anna.submit(MATRIX | {"questions": questions, "regions": ["US"]})
    assert (await anna.job(job_id))["skip_price"] == 3, "100 runs of 0.15 s"


async def test_the_price_list_is_public_to_users(api: ApiHarness) -> None:
    anna = await api.user()
    prices = (await anna.get("/api/v1/skip-pricing"))["prices"]
    assert [(one["up_to_s"], one["price"]) for one in prices] == [
        (10, 1),
        (30, 3),
        (60, 5),
        (120, 10),
        (None, 15),
    ]


async def test_a_paid_job_is_served_before_all_others_of_any_class(api: ApiHarness) -> None:
    anna, bert = await rich(api, name="anna", tier="free"), await rich(api, name="bert", tier="admin")
    for _ in range(3):
        await bert.submit(GENERATION)
    await anna.submit(GENERATION)
    paid = await anna.submit(GENERATION)
    await api.publish()
    answer = await skip(anna, paid)
    assert (answer["cost"], answer["credit"], answer["places_gained"]) == (1, 19, 1)
    assert (answer["position"], answer["price_paid"], answer["skip_price"]) == (1, 1, None)
    await api.publish()

    (first,) = await api.claim()
    assert first.id == decode_job_id(paid)
    assert first.front, "so that the router serves it first, too"
    assert len(await api.claim(5)) == 4, "one message each: nothing was doubled"
    assert [event["type"] for event in (await anna.get(f"/api/v1/jobs/{paid}/events"))["events"]] == [
        "JOB_QUEUED",
        "JOB_SKIPPED",
    ]


async def test_a_skip_before_the_first_message_is_published_works_the_same(api: ApiHarness) -> None:
    anna = await rich(api)
    await anna.submit(GENERATION)
    await api.publish()
    paid = await anna.submit(GENERATION)
    assert (await skip(anna, paid))["places_gained"] == 1
    (first,) = await api.claim()
    assert first.id == decode_job_id(paid)
    assert len(await api.claim(3)) == 1


async def test_a_skipped_job_that_completes_at_once_has_its_end_event(api: ApiHarness) -> None:
    anna = await rich(api)
    job_id = await anna.submit(GENERATION)
    await skip(anna, job_id)
    await api.run("a cat")
    page = await anna.get(f"/api/v1/jobs/{job_id}/events")
    assert [(event["seq"], event["type"]) for event in page["events"]] == [
        (1, "JOB_QUEUED"),
        (2, "JOB_SKIPPED"),
        (3, "EXECUTION_START"),
        (4, "EXECUTION_COMPLETE"),
        (5, "JOB_COMPLETE"),
    ]
    assert not page["more"]
    assert await entries(anna) == [("skip", -1), ("grant", 20)]
    assert (await anna.job(job_id))["price_paid"] == 1


async def test_without_enough_credit_nothing_changes(api: ApiHarness) -> None:
    anna = await rich(api, credit=2)
    job_id = await anna.submit(SONG | {"duration": 30})
    problem = await skip(anna, job_id, 402)
    assert (problem["code"], problem["price"], problem["credit"]) == ("insufficient_credit", 3, 2)
    assert await credit_of(anna) == 2
    assert (await anna.job(job_id))["price_paid"] == 0


async def test_concurrent_skips_never_make_the_credit_negative(api: ApiHarness) -> None:
    anna = await rich(api, credit=5)
    jobs = [await anna.submit(GENERATION) for _ in range(12)]
    answers = await asyncio.gather(*(anna.http.post(f"/api/v1/jobs/{job}/skip") for job in jobs))
    assert Counter(answer.status_code for answer in answers) == {200: 5, 402: 7}
    assert await credit_of(anna) == 0
    ledger = (await anna.get("/api/v1/me/ledger"))["entries"]
    assert [entry["balance"] for entry in reversed(ledger)] == [5, 4, 3, 2, 1, 0]


async def test_a_job_is_paid_for_once(api: ApiHarness) -> None:
    anna = await rich(api)
    job_id = await anna.submit(GENERATION)
    answers = await asyncio.gather(*(anna.http.post(f"/api/v1/jobs/{job_id}/skip") for _ in range(5)))
    assert Counter(answer.status_code for answer in answers) == {200: 1, 409: 4}
    assert {answer.json().get("code") for answer in answers} == {None, "already_skipped"}
    assert await credit_of(anna) == 19


async def test_a_job_that_started_or_ended_is_not_charged(api: ApiHarness) -> None:
    anna = await rich(api)
    job_id = await anna.submit(GENERATION)
    (claimed,) = await api.claim()
    assert (await skip(anna, job_id, 409))["state"] == "queued"  # no router says that it waits there
    await api.store.start(claimed)
    assert (await skip(anna, job_id, 409))["state"] == "processing"
    await api.store.run(claimed, "done")
    assert (await skip(anna, job_id, 409))["state"] == "completed"
    assert await credit_of(anna) == 20


async def test_a_concurrent_skip_and_start_charge_only_if_the_skip_is_first(api: ApiHarness) -> None:
    anna = await rich(api)
    for _ in range(10):
        job_id = await anna.submit(GENERATION)
        before = await credit_of(anna)
        answer, (claimed,) = await asyncio.gather(anna.http.post(f"/api/v1/jobs/{job_id}/skip"), api.claim())
        assert claimed.front is (answer.status_code == 200)
        assert await credit_of(anna) == before - (1 if claimed.front else 0)
        await api.store.run(claimed, "done")


async def test_another_users_job_cannot_be_paid_for(api: ApiHarness) -> None:
    anna, bert = await rich(api), await rich(api, name="bert")
    job_id = await anna.submit(GENERATION)
    await skip(bert, job_id, 404)
    assert await credit_of(bert) == 20


async def test_a_job_cancelled_before_its_start_is_refunded_once(api: ApiHarness) -> None:
    anna = await rich(api)
    job_id = await anna.submit(GENERATION)
    await skip(anna, job_id)
    await anna.post(f"/api/v1/jobs/{job_id}/cancel")
    await anna.post(f"/api/v1/jobs/{job_id}/cancel")
    assert await entries(anna) == [("refund", 1), ("skip", -1), ("grant", 20)]
    ledger = (await anna.get("/api/v1/me/ledger"))["entries"]
    assert ledger[0]["refunds"] == ledger[1]["id"]
    assert ledger[0]["job_id"] == job_id
    assert (await anna.job(job_id))["price_paid"] == 0


async def test_a_job_cancelled_while_it_runs_is_not_refunded(api: ApiHarness) -> None:
    anna = await rich(api)
    job_id = await paid_and_claimed(api, anna, backend="us-1")
    await anna.post(f"/api/v1/jobs/{job_id}/cancel")
    assert await credit_of(anna) == 19
    await cancel_notifier(api).run_once()
    assert await credit_of(anna) == 19


async def test_a_job_cancelled_at_the_router_is_refunded_once(
    api: ApiHarness,
) -> None:
    anna = await rich(api)
    job_id = await paid_and_claimed(api, anna, backend=None)
    cancelled = await anna.post(f"/api/v1/jobs/{job_id}/cancel")
    assert (cancelled["status"], cancelled["price_paid"]) == ("cancelled", 0)
    await anna.post(f"/api/v1/jobs/{job_id}/cancel")
    await all_cancels_confirmed(api)
    assert await entries(anna) == [("refund", 1), ("skip", -1), ("grant", 20)]


async def test_a_refund_waits_for_an_unavailable_router_within_bounds(
    api: ApiHarness,
) -> None:
    anna = await rich(api)
    job_id = await paid_and_claimed(api, anna, backend=None)
    api.router.unanswered = ("cannot connect",)
    await anna.post(f"/api/v1/jobs/{job_id}/cancel")
    await all_cancels_confirmed(api)
    assert (await entries(anna))[0] == ("skip", -1)
    await api.store.database.execute(LONG_AGO)
    await all_cancels_confirmed(api)
    assert await entries(anna) == [("refund", 1), ("skip", -1), ("grant", 20)]


async def test_a_run_before_the_payment_does_not_prevent_the_refund(api: ApiHarness) -> None:
    """The router reports the failed first attempt; the second had not arrived yet."""
    anna = await rich(api)
    job_id = await anna.submit(GENERATION)
    (claimed,) = await api.claim()
    await api.store.run(claimed, "later")
    api.router.known[encode_execution_id(claimed.id, 0, 0)] = seen(claimed, backend="us-1")
    await due_now(api, job_id)
    await skip(anna, job_id)
    await api.claim()
    await anna.post(f"/api/v1/jobs/{job_id}/cancel")
    assert await entries(anna) == [("refund", 1), ("skip", -1), ("grant", 20)]


async def paid_and_claimed(api: ApiHarness, caller: Caller, *, backend: str | None) -> str:
    """A worker has sent it to the router; a backend runs it or not yet."""
    job_id = await caller.submit(GENERATION)
    await skip(caller, job_id)
    (claimed,) = await api.claim()
    api.router.known[encode_execution_id(claimed.id, 0, 0)] = seen(claimed, backend=backend)
    return job_id


def seen(claimed: ClaimedJob, *, backend: str | None) -> InferenceView:
    return InferenceView(
        request_id=encode_execution_id(claimed.id, 0, 0),
        state=InferenceState.CANCELLED,
        model="flux",
        requested_region="US",
        backend=backend,
        fence=claimed.fence,
    )


def cancel_notifier(api: ApiHarness) -> CancelNotifier:
    """The relay's."""
    return CancelNotifier(PostgresCancels(api.store.database, max_executions=64), api.router)


async def all_cancels_confirmed(api: ApiHarness) -> None:
    """Run the relay's cancel notifier when the next try is due."""
    await api.store.database.execute(TRY_NOW)
    await cancel_notifier(api).run_once()


async def test_a_job_that_fails_without_a_run_is_refunded(api: ApiHarness) -> None:
    anna = await rich(api)
    job_id = await anna.submit(GENERATION)
    await skip(anna, job_id)
    (claimed,) = await api.claim()
    report = await api.store.run(claimed, "never")
    assert isinstance(report.verdict, Dead)
    assert await entries(anna) == [("refund", 1), ("skip", -1), ("grant", 20)]
    job = await anna.job(job_id)
    assert (job["status"], job["price_paid"], job["priority"]) == ("failed", 0, "high")


async def test_a_job_that_fails_after_a_run_is_not_refunded(api: ApiHarness) -> None:
    anna = await rich(api)
    job_id = await anna.submit(MATRIX)
    await skip(anna, job_id)
    (claimed,) = await api.claim()
    await api.store.run(claimed, "an answer", "never", "never", "never")
    assert (await anna.job(job_id))["status"] == "partial"
    assert await credit_of(anna) == 19


async def test_a_poison_job_without_a_run_is_refunded(api: ApiHarness) -> None:
    anna = await rich(api)
    job_id = await anna.submit(GENERATION)
    await skip(anna, job_id)
    await api.publish()
    messages = await api.queue.claim(["high"], 1, "w1")  # type: ignore[list-item]
    for _ in range(MAX_DELIVERIES):
        await api.store.claims.claim(messages, "w1")
    (claimed,) = await api.store.claims.claim(messages, "w1")
    run = build_run(messages[0], claimed, 0.0, max_deliveries=MAX_DELIVERIES)
    await api.store.claims.record([run.take_report()])
    assert (await anna.job(job_id))["status"] == "failed"
    assert await entries(anna) == [("refund", 1), ("skip", -1), ("grant", 20)]


async def test_only_runs_after_the_payment_count(api: ApiHarness) -> None:
    """A job ran and failed, was resumed, paid for, and cancelled before it ran again: refunded."""
    anna = await rich(api)
    job_id = await anna.submit(MATRIX)
    await api.run("an answer", "later", "later", "later")
    for _ in range(POLICY.retries):
        await due_now(api, job_id)
        await api.run("later", "later", "later")
    assert (await anna.job(job_id))["status"] == "partial"
    await anna.post(f"/api/v1/jobs/{job_id}/resume", None, 202)
    await skip(anna, job_id)
    await anna.post(f"/api/v1/jobs/{job_id}/cancel")
    assert await entries(anna) == [("refund", 1), ("skip", -1), ("grant", 20)]


async def test_a_retried_paid_job_is_first_again(api: ApiHarness) -> None:
    anna, bert = await rich(api), await api.user("bert", "admin")
    paid = await anna.submit(GENERATION)
    await skip(anna, paid)
    await api.run("later")
    others = [await bert.submit(GENERATION) for _ in range(3)]
    await due_now(api, paid)
    assert [claimed.id for claimed in await api.claim(4)] == [decode_job_id(job) for job in (paid, *others)]


async def test_a_queued_retry_can_be_paid_for(api: ApiHarness) -> None:
    anna, bert = await rich(api), await api.user("bert", "admin")
    job_id = await anna.submit(GENERATION)
    await api.run("later")
    await bert.submit(GENERATION)
    assert (await skip(anna, job_id, 409))["state"] == "retrying"
    assert (await anna.job(job_id))["skip_price"] is None
    await due_now(api, job_id)
    await api.clock.advance(YEAR_S)
    seen = await anna.job(job_id)
    assert (seen["status"], seen["position"], seen["skip_price"]) == ("retrying", 2, 1)
    assert (await anna.get(f"/api/v1/jobs/{job_id}/why"))["jobs_ahead"] == 1
    await skip(anna, job_id)
    (first,) = await api.claim()
    assert first.id == decode_job_id(job_id)


async def test_concurrent_ends_of_a_job_refund_once(api: ApiHarness) -> None:
    """Cancelled by its user while a worker reports a failure without a run."""
    anna = await rich(api)
    for _ in range(10):
        job_id = await anna.submit(GENERATION)
        await skip(anna, job_id)
        (claimed,) = await api.claim()
        cancel = anna.http.post(f"/api/v1/jobs/{job_id}/cancel")
        answer, recorded = await asyncio.gather(cancel, api.store.claims.record([judged(claimed, "never")]))
        died = claimed.id in recorded
        assert answer.status_code == (409 if died else 200)
        assert [entry for entry, _ in await entries(anna)][:2] == ["refund", "skip"], "in either order"


async def test_two_processes_never_spend_the_same_credit(
    api: ApiHarness, database_url: str, redis_url: str
) -> None:
    anna = await rich(api, credit=5)
    user_id = (await anna.get("/api/v1/me"))["user_id"]
    jobs = [await anna.submit(GENERATION) for _ in range(12)]
    async with api_harness(database_url, redis_url) as other:
        there = Caller(other.caller(None).http)
        there.http.headers = anna.http.headers
        root = await api.admin()
        answers = await asyncio.gather(
            *(caller.http.post(f"/api/v1/jobs/{job}/skip") for job in jobs for caller in (anna, there)),
            *(root.http.post(f"/admin/users/{user_id}/credit", json={"amount": -1}) for _ in range(3)),
            *(anna.http.post(f"/api/v1/jobs/{job}/cancel") for job in jobs),
        )
    assert {answer.status_code for answer in answers} <= {200, 402, 409}
    ledger = (await anna.get("/api/v1/me/ledger"))["entries"][::-1]
    assert [entry["balance"] for entry in ledger] == list(accumulate(entry["amount"] for entry in ledger))
    assert min(entry["balance"] for entry in ledger) >= 0
    assert await credit_of(anna) == ledger[-1]["balance"]
    refunded = [entry["refunds"] for entry in ledger if entry["entry"] == "refund"]
    assert len(refunded) == len(set(refunded)) == sum(entry["entry"] == "skip" for entry in ledger)


async def due_now(api: ApiHarness, job_id: str) -> None:
    """What time and the retry handler do."""
    await api.publish()
    await api.store.database.execute(DUE_NOW, decode_job_id(job_id))
    await api.redis.zadd("jobs:retry", dict.fromkeys(await api.redis.zrange("jobs:retry", 0, -1), 1))
    await api.queue.promote_due_retries(100)


async def test_the_ledger_is_read_page_by_page_and_by_operators(api: ApiHarness, admin: Caller) -> None:
    anna = await rich(api)
    for _ in range(3):
        await skip(anna, await anna.submit(GENERATION))
    first = await anna.get("/api/v1/me/ledger", limit=2)
    rest = await anna.get("/api/v1/me/ledger", limit=2, cursor=first["next_cursor"])
    assert [entry["balance"] for entry in first["entries"] + rest["entries"]] == [17, 18, 19, 20]
    assert rest["next_cursor"] is None
    user_id = (await anna.get("/api/v1/me"))["user_id"]
    assert len((await admin.get(f"/admin/users/{user_id}/ledger"))["entries"]) == 4
    await anna.get(f"/admin/users/{user_id}/ledger", 403)
