"""Reports of the use of GPUs over HTTP."""

import csv
from datetime import UTC, datetime, timedelta

from beacon_contracts.ids import USER, KeyId, UserId, decode_id, new_uuid
from beacon_runner.domain.accounts.usage import InteractiveUsage
from beacon_runner.postgres.accounts.usage import PostgresUsage
from tests.integration.runner_api.harness import ApiHarness, Caller

NOW = datetime.now(UTC)  # Postgres has no manual clock
PERIOD = {
    "from": (NOW - timedelta(hours=2)).isoformat(),
    "to": (NOW + timedelta(hours=2)).isoformat(),
}


async def use(api: ApiHarness, caller: Caller, model: str, count: int = 1) -> None:
    user = UserId(decode_id(USER, (await caller.get("/api/v1/me"))["user_id"]))
    run = InteractiveUsage(user, KeyId(new_uuid()), model, "US", 1.0, 0.5, 2.0, 7, 9, failed=False)
    for _ in range(count):
        await PostgresUsage(api.store.database).add_interactive([run])


async def test_users_see_their_own_use_and_operators_all(
    api: ApiHarness, anna: Caller, admin: Caller
) -> None:
    ben = await api.user("ben")
    await use(api, anna, "flux", 2)
    await use(api, ben, "=sdxl")
    rows = (await anna.get("/api/v1/usage", group_by="model", **PERIOD))["rows"]
    assert [(row["model"], row["runs"], row["gpu_seconds"], row["tokens_out"]) for row in rows] == [
        ("flux", 2, 5.0, 18)
    ]
    assert [row["runs"] for row in (await admin.get("/admin/usage", **PERIOD))["rows"]] == [3]
    ben_id = (await ben.get("/api/v1/me"))["user_id"]
    assert [row["runs"] for row in (await admin.get("/admin/usage", user=ben_id, **PERIOD))["rows"]] == [1]
    await ben.get("/admin/usage", 403)


async def test_the_same_rows_as_csv_without_formulas(api: ApiHarness, anna: Caller) -> None:
    await use(api, anna, "=HYPERLINK()")
    answer = await anna.http.get("/api/v1/usage", params={"group_by": "model", "format": "csv", **PERIOD})
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    (row,) = csv.DictReader(answer.text.splitlines())
    assert (row["model"], row["runs"], row["tag"]) == ("'=HYPERLINK()", "1", "")


async def test_periods_and_groups_that_have_no_answer_are_422(anna: Caller) -> None:
    for query in (
        {"from": "2026-01-01T00:00:00"},
        {"from": "2020-01-01T00:00:00Z"},
        {"to": "2020-01-01T00:00:00Z", "from": "2021-01-01T00:00:00Z"},
        {"group_by": ["hour", "day"]},
        {"group_by": "colour"},
        {"format": "xml"},
    ):
        await anna.get("/api/v1/usage", 422, **query)
