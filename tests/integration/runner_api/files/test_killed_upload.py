"""What a process that is killed during an upload leaves behind."""

import asyncio
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from beacon_files import open_store
from beacon_lifecycle import ManualClock
from beacon_runner.maintenance.file_cleanup import ORPHAN_AGE, FileCleanup
from beacon_runner.postgres.files import PostgresFiles
from tests.integration.runner_api.harness import ApiHarness

UPLOAD = f"""
import asyncio, os, signal, sys
from beacon_files import open_store

async def chunks():
    yield bytes(1_000_000)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(open_store(sys.argv[1]).put("uploads/{"0" * 32}/{"1" * 32}", chunks(), max_bytes=10**9))
"""


async def test_cleanup_removes_the_parts_of_a_killed_upload(api: ApiHarness) -> None:
    def parts() -> list[Path]:
        return [path for path in Path(api.files).rglob("*") if path.is_file()]

    killed = await asyncio.create_subprocess_exec(sys.executable, "-c", UPLOAD, api.files)
    await killed.wait()
    assert len(parts()) == 1
    clock = ManualClock(datetime.now(UTC))
    cleanup = FileCleanup(PostgresFiles(api.store.database), open_store(api.files), clock, orphans_every_s=-1)
    assert (await cleanup.run_once()).count == 0  # it may belong to an upload that still runs
    await clock.advance((ORPHAN_AGE + timedelta(hours=1)).total_seconds())
    assert (await cleanup.run_once()).count == 1
    assert [path.name for path in parts()] == ["database"]
