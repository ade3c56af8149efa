"""Classes that are paused."""

from beacon_runner.migrations.steps import run_sql

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0002_up.sql")


def downgrade() -> None:
    run_sql("0002_down.sql")
