"""A database with many jobs, and a matrix with many results."""

from pathlib import Path

from beacon_config import load_config
from beacon_contracts.ids import JobId, UserId, new_uuid
from beacon_contracts.tiers import JobClass
from beacon_lifecycle import SystemClock
from beacon_runner.domain.execution.plan import execution_keys
from beacon_runner.domain.jobs.admission import AdmittedJob
from beacon_runner.domain.jobs.submissions import NewJob
from beacon_runner.postgres.database import Database
from beacon_runner.postgres.jobs.submissions import PostgresSubmissions
from benchmarks.harness.process import ROOT

CONFIG = ROOT / "config" / "beacon.toml"
_SQL = Path(__file__).with_name("sql")
_QUEUE_SIZE = 10_000_000
_QUESTIONS, _MODELS, _REGIONS = 1_250, 4, ("US", "EU")


def _statement(name: str) -> str:
    return (_SQL / f"{name}.sql").read_text(encoding="utf-8")


async def fill(database: Database, jobs: int, user: UserId) -> None:
    async with database.acquire() as connection:
        await connection.execute("SET transaction_timeout = 0; SET statement_timeout = 0")
        await connection.execute(_statement("fill"), jobs, user, timeout=1_800)
        await connection.execute(_statement("label"), timeout=1_800)
        await connection.execute("VACUUM ANALYZE", timeout=1_800)


async def add_matrix(database: Database, user: UserId, output_bytes: int) -> tuple[JobId, int]:
    """A matrix of this user, all of whose executions have an output of this size; their number."""
    spec = {
        "questions": [{"id": f"q{number}", "prompt": "why?"} for number in range(_QUESTIONS)],
        "targets": [[f"model-{number}", list(_REGIONS)] for number in range(_MODELS)],
    }
    keys = list(execution_keys(spec))
    job = JobId(new_uuid())
    admitted = AdmittedJob("matrix", "export", spec, 1, len(keys))
    new = NewJob(job, user, next(iter(load_config(CONFIG, {}).tiers)), JobClass.LOW, user.hex, admitted)
    await PostgresSubmissions(database, SystemClock(), _QUEUE_SIZE).submit([new])
    columns = [key.ordinal for key in keys], *([getattr(key, name) for key in keys] for name in _NAMES)
    async with database.acquire() as connection:
        await connection.execute(_statement("results"), job, output_bytes, *columns, timeout=600)
    return job, len(keys)


_NAMES = ("item", "model", "region")
