"""The storage of a waiting job."""

import orjson

from beacon_contracts.ids import UserId, new_uuid
from tests.integration.runner_store.harness import GENERATION, StoreHarness, new_job
from tests.integration.runner_store.statements import TABLE_SIZES

JOBS = 20_000


async def test_a_waiting_job_takes_at_most_a_kilobyte_without_its_input(harness: StoreHarness) -> None:
    users = [UserId(new_uuid()) for _ in range(50)]
    empty = await harness.database.fetchval(TABLE_SIZES)
    for start in range(0, JOBS, 1_000):
        jobs = [new_job(user=users[number % 50], lane=users[number % 50].hex) for number in range(1_000)]
        assert len(await harness.submissions.submit(jobs)) == 1_000, start
    used = await harness.database.fetchval(TABLE_SIZES) - empty
    assert used / JOBS - len(orjson.dumps(GENERATION.spec["input"])) <= 1_024
