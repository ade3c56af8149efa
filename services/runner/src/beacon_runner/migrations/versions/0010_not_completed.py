"""Jobs that ended without being completed."""

from beacon_runner.migrations.steps import run_sql

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0010_up.sql")


def downgrade() -> None:
    run_sql("0010_down.sql")
