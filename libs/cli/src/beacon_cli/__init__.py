"""The `beacon` command line."""

from beacon_cli.app import app


def main() -> None:
    app()


__all__ = ["app", "main"]
