"""Logs go to a captured stdout; the process-wide configuration is restored afterwards."""

import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import structlog

from beacon_telemetry import configure_logging


@pytest.fixture(autouse=True)
def _restore_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers, root.level = handlers, level
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()


@pytest.fixture
def json_lines(capsys: pytest.CaptureFixture[str]) -> Callable[[], list[dict[str, Any]]]:
    """Logs as JSON from here on; call it for the lines written since the last call."""
    configure_logging("test-service", "json", "debug")

    def read() -> list[dict[str, Any]]:
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return read
