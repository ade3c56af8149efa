"""`python -m benchmarks.job_lists`: measure, and write benchmarks/results/job_lists.md."""

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence

from beacon_contracts.api_keys import new_api_key
from beacon_runner.postgres.accounts.users import PostgresUsers
from beacon_runner.postgres.database import Database
from benchmarks.harness.servers import shared_servers
from benchmarks.job_lists import export, lists
from benchmarks.job_lists.database import add_matrix, fill
from benchmarks.job_lists.report import write_report

OUTPUT_BYTES = (1_000, 20_000)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.job_lists", description=__doc__)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=20, help="fetches of each page")
    chosen, _ = parser.parse_known_args(arguments)
    load_before = os.getloadavg()[0]
    pages, exports = asyncio.run(_measure(chosen.jobs, chosen.rounds))
    how = f"{chosen.rounds} fetches of each page, load average {load_before:.1f} before"
    print(f"wrote {write_report(chosen.jobs, pages, exports, how)}")
    return 0


async def _measure(jobs: int, rounds: int) -> tuple[list[lists.Page], list[export.Export]]:
    async with shared_servers() as shared, shared.target("lists", migrated=True) as target:
        database = Database(target.database_url, size=2)
        await database.open()
        try:
            key = new_api_key()
            user = (await PostgresUsers(database).add("lists", "admin", key)).id
            await fill(database, jobs, user)
            pages = await lists.measure(database, user, rounds)
            exports: list[export.Export] = []
            async with export.api(target, key) as server:
                for size in OUTPUT_BYTES:
                    job, _ = await add_matrix(database, user, size)
                    exports += await export.measure(server, job, f"{size // 1000} kB each")
        finally:
            await database.close()
    return pages, exports


if __name__ == "__main__":
    sys.exit(main())
