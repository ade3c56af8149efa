"""What jobs that the router could not take wait for."""

from beacon_runner.migrations.steps import run_sql

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0009_up.sql")


def downgrade() -> None:
    run_sql("0009_down.sql")
