"""The database's versions, forward and back. The steps are SQL files; Alembic keeps their order."""

from importlib.resources import files


class UnknownVersionError(Exception):
    """The database was migrated by a later release."""

    def __init__(self, version: str | None) -> None:
        super().__init__(f"the database is at {version}, which this release does not know: it needs {head()}")


class ChangedMigrationError(Exception):
    """The SQL of the database's version has changed since; only versions that are not released change."""

    def __init__(self, version: str) -> None:
        super().__init__(
            f"the database was made by an earlier draft of version {version}, "
            "and no migration leads from there. Use an empty database; "
            "`make clean` removes the one of `make up`, with all its data"
        )


def head() -> str:
    """The version that this code was written for. Known without Alembic, which only `migrate` has to load."""
    versions = files(__name__).joinpath("versions").iterdir()
    return max(file.name.partition("_")[0] for file in versions if file.name.endswith(".py"))
