"""Room in the indexes that the end of a job writes to."""

from beacon_runner.migrations.steps import run_sql

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0008_up.sql")


def downgrade() -> None:
    run_sql("0008_down.sql")
