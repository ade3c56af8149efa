"""The database's versions, forward and back. The steps are SQL files; Alembic keeps their order."""

from importlib.resources import files


class UnknownVersionError(Exception):
    """The database was migrated by a later release."""

    def __init__(self, version: str | None) -> None:
        super().__init__(f"the database is at {version}, which this release does not know: it needs {head()}")


def head() -> str:
    """The version that this code was written for. Known without Alembic, which only `migrate` has to load."""
    versions = files(__name__).joinpath("versions").iterdir()
    return max(file.name.partition("_")[0] for file in versions if file.name.endswith(".py"))
