"""Version 0012: lanes and batches that follow from ids are not written out, and nothing is lost by that."""

from pathlib import Path

import asyncpg

from beacon_contracts.ids import new_uuid
from beacon_runner.migrations import migrate
from beacon_runner.postgres.new_ids import batch_of, new_job_ids

_SQL = Path(__file__).parent / "sql"
ROWS_OF_0011 = (_SQL / "rows_of_0011.sql").read_text(encoding="utf-8")
LANES_AND_BATCHES = (_SQL / "lanes_and_batches.sql").read_text(encoding="utf-8")


async def test_rows_are_narrowed_and_written_out_again(empty_database_url: str) -> None:
    user, alone, batch, other = new_uuid(), new_uuid(), new_job_ids(2), new_uuid()
    written = [
        (alone, user.hex, None),
        (batch[0], user.hex, "b"),
        (batch[1], "", "b"),
        (other, "queue_3", None),
    ]
    await migrate.upgrade(empty_database_url, "0011")
    connection = await asyncpg.connect(empty_database_url)
    try:
        for job, lane, name in written:
            await connection.execute(ROWS_OF_0011, job, user, lane, name)
        await migrate.upgrade(empty_database_url, "0012")
        narrow = [(None, False), (None, True), ("", True), ("queue_3", False)]
        assert await rows(connection) == [one * 2 for one in narrow]
        await migrate.downgrade(empty_database_url, "0011")
        lanes, names = (
            [user.hex, user.hex, "", "queue_3"],
            [None, batch_of(batch[0]), batch_of(batch[1]), None],
        )
        assert await rows(connection) == [one * 2 for one in zip(lanes, names, strict=True)]
    finally:
        await connection.close()


async def test_a_message_whose_job_is_gone_is_gone(empty_database_url: str) -> None:
    await migrate.upgrade(empty_database_url, "0011")
    connection = await asyncpg.connect(empty_database_url)
    try:
        await connection.execute(ROWS_OF_0011, new_uuid(), new_uuid(), "", None)
        await connection.execute("DELETE FROM jobs")
        await migrate.upgrade(empty_database_url, "0012")
        assert await connection.fetchval("SELECT count(*) FROM outbox") == 0
    finally:
        await connection.close()


async def rows(connection: "asyncpg.Connection[asyncpg.Record]") -> list[tuple[object, ...]]:
    return [tuple(row) for row in await connection.fetch(LANES_AND_BATCHES)]
