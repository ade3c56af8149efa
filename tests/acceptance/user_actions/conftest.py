"""The whole system with one attempt per inference at the router, so that jobs reach their own backoff."""

from collections.abc import Iterator

import pytest

from tests.fixtures.stack import RunningStack, changed_config, running_stack

ONE_ATTEMPT = {"batch_limit = 3\nattempts = 3": "batch_limit = 3\nattempts = 1"}


@pytest.fixture(scope="package")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    config = changed_config(tmp_path_factory.mktemp("config"), ONE_ATTEMPT)
    with running_stack(BEACON_CONFIG=str(config), GPUSIM_TIME_SCALE="0.3") as running:
        yield running
