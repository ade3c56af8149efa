"""An index of the jobs that ended, in place of one of all jobs."""

from beacon_runner.migrations.steps import run_sql

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0011_up.sql")


def downgrade() -> None:
    run_sql("0011_down.sql")
