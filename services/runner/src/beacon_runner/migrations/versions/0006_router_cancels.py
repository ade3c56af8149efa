"""Cancels that the routers are still to be told of."""

from beacon_runner.migrations.steps import run_sql

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0006_up.sql")


def downgrade() -> None:
    run_sql("0006_down.sql")
