"""Statements that only tests use."""

from pathlib import Path

_SQL = Path(__file__).parent / "sql"

AGE_JOB = (_SQL / "age_job.sql").read_text(encoding="utf-8")
DUE_NOW = (_SQL / "due_now.sql").read_text(encoding="utf-8")
EXPLAIN = (_SQL / "explain.sql").read_text(encoding="utf-8").strip()
FORCE_GENERIC = (_SQL / "force_generic.sql").read_text(encoding="utf-8")
TABLE_SIZES = (_SQL / "table_sizes.sql").read_text(encoding="utf-8")
LATE_MESSAGE = (_SQL / "late_message.sql").read_text(encoding="utf-8")
MANY_EVENTS = (_SQL / "many_events.sql").read_text(encoding="utf-8")
TRY_NOW = (_SQL / "try_now.sql").read_text(encoding="utf-8")
LONG_AGO = (_SQL / "long_ago.sql").read_text(encoding="utf-8")
HOURS_LATER = (_SQL / "hours_later.sql").read_text(encoding="utf-8")
MINUTES_LATER = (_SQL / "minutes_later.sql").read_text(encoding="utf-8")
MANY_JOBS = (_SQL / "many_jobs.sql").read_text(encoding="utf-8")
LABEL_JOBS = (_SQL / "label_jobs.sql").read_text(encoding="utf-8")
ROWS_READ = (_SQL / "rows_read.sql").read_text(encoding="utf-8")
MANY_AUDIT_ENTRIES = (_SQL / "many_audit_entries.sql").read_text(encoding="utf-8")
