"""How Alembic reaches the database: over a connection that the caller has opened."""

from alembic import context
from sqlalchemy import Connection, func, select

LOCK = 0x6265_6163  # one migration at a time, however many processes start at once


def run(connection: Connection) -> None:
    context.configure(connection=connection, transaction_per_migration=False)
    with context.begin_transaction():
        connection.execute(select(func.pg_advisory_xact_lock(LOCK)))
        context.run_migrations()


run(context.config.attributes["connection"])
