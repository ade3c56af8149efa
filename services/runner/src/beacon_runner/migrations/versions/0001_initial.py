"""Users, jobs, executions, outbox, events, ledger."""

from beacon_runner.migrations.steps import run_sql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0001_up.sql")


def downgrade() -> None:
    run_sql("0001_down.sql")
