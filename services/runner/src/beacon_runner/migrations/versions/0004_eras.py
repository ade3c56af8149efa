"""Eras of fences, so that a claim need not wait for the disk."""

from beacon_runner.migrations.steps import run_sql

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0004_up.sql")


def downgrade() -> None:
    run_sql("0004_down.sql")
