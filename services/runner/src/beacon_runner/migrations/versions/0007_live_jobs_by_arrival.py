"""Live jobs in the order in which they wait."""

from beacon_runner.migrations.steps import run_sql

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0007_up.sql")


def downgrade() -> None:
    run_sql("0007_down.sql")
