"""The database's versions, forward and back. The steps are SQL files; Alembic keeps their order."""
