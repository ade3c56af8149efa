"""Lanes and batches that follow from other columns are not written out."""

from beacon_runner.migrations.steps import run_sql

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0012_up.sql")


def downgrade() -> None:
    run_sql("0012_down.sql")
