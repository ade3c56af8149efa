"""Says how to see the same chaos again."""

import os

import pytest


def pytest_report_header(config: pytest.Config) -> list[str]:
    if config.getoption("markexpr") != "chaos":
        return []
    return [f"chaos: BEACON_CHAOS_SEED={os.environ.get('BEACON_CHAOS_SEED', 'not set')}"]
