import resource

import pytest

from beacon_http.open_files import connections_allowed, files_needed

NO_LIMIT = resource.RLIM_INFINITY


@pytest.mark.parametrize(
    ("soft", "hard", "expected"),
    [(1_024, 65_536, 8_192), (1_024, 4_096, 4_096), (20_000, 65_536, 20_000), (1_024, NO_LIMIT, 8_192)],
)
def test_the_limit_of_files_allows_twice_the_connections(soft: int, hard: int, expected: int) -> None:
    assert files_needed(4_096, soft, hard) == expected


def test_an_unlimited_number_of_files_is_kept() -> None:
    assert files_needed(4_096, NO_LIMIT, NO_LIMIT) == NO_LIMIT


def test_connections_get_at_most_half_of_the_files() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == NO_LIMIT:
        pytest.skip("this system does not limit open files")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        assert connections_allowed(hard) == hard // 2
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
