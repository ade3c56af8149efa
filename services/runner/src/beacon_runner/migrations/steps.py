"""Runs a whole SQL file inside Alembic's transaction."""

from importlib.resources import files

from alembic import op


def run_sql(name: str) -> None:
    """The driver takes many statements in one text; SQLAlchemy would prepare it and allow only one."""
    script = files("beacon_runner.migrations").joinpath("sql", name).read_text(encoding="utf-8")
    adapted = op.get_bind().connection.dbapi_connection
    adapted.run_async(lambda connection: connection.execute(script))  # type: ignore[union-attr]
