"""Prints how to repeat a run."""

import os

import pytest


def pytest_report_header(config: pytest.Config) -> list[str]:
    if config.getoption("markexpr") != "chaos":
        return []
    return [f"chaos: BEACON_CHAOS_SEED={os.environ.get('BEACON_CHAOS_SEED', 'not set')}"]
