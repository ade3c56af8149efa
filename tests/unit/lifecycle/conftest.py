"""New loggers per test: a used logger keeps its configuration."""

import pytest
import structlog

from beacon_lifecycle import loop, supervisor, tasks


@pytest.fixture(autouse=True)
def _fresh_loggers(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (loop, supervisor, tasks):
        monkeypatch.setattr(module, "log", structlog.get_logger(module.__name__))
