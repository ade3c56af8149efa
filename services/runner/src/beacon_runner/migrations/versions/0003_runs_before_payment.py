"""What of a job had run when somebody paid for it, so that only what ran afterwards counts."""

from beacon_runner.migrations.steps import run_sql

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0003_up.sql")


def downgrade() -> None:
    run_sql("0003_down.sql")
