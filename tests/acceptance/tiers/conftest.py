"""The whole system with short delays: seconds instead of minutes."""

from collections.abc import Iterator

import pytest

from tests.fixtures.stack import RunningStack, changed_config, running_stack

SHORT_DELAYS = {
    "low_to_medium_after_s = 1800\nmedium_to_high_after_s = 3600\ncheck_every_s = 300": (
        "low_to_medium_after_s = 2\nmedium_to_high_after_s = 600\ncheck_every_s = 0.5"
    ),
    "job_retry_delays_s = [60, 120, 180]": "job_retry_delays_s = [0.5, 0.5, 0.5]",
    "batch_limit = 3\nattempts = 3": "batch_limit = 3\nattempts = 1",
}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    config = changed_config(tmp_path_factory.mktemp("config"), SHORT_DELAYS)
    with running_stack(BEACON_CONFIG=str(config), GPUSIM_TIME_SCALE="0.3") as running:
        yield running
