"""Fixtures of the command line tests."""

from tests.integration.client.conftest import served

__all__ = ["served"]
