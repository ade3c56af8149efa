"""Which messages are being brought to Redis by the process that stored them."""

from beacon_runner.migrations.steps import run_sql

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0005_up.sql")


def downgrade() -> None:
    run_sql("0005_down.sql")
