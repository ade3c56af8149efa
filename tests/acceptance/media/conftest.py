"""The whole system with fast simulated GPUs."""

from collections.abc import Iterator

import pytest

from tests.fixtures.stack import RunningStack, running_stack


@pytest.fixture(scope="package")
def stack() -> Iterator[RunningStack]:
    with running_stack(GPUSIM_TIME_SCALE="0.05") as running:
        yield running
