"""The choice of the servers of a test run."""

import pytest

from tests.fixtures.choice import ServerChoice, ServerChoiceError, Source, choose_servers

DATABASE = {"DATABASE_URL": "postgresql://db.test/x"}
REDIS = {"REDIS_URL": "redis://r.test/1"}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, ServerChoice(Source.EMBEDDED, Source.EMBEDDED)),
        ({"DATABASE_URL": "", "REDIS_URL": ""}, ServerChoice(Source.EMBEDDED, Source.EMBEDDED)),
        (DATABASE, ServerChoice(Source.GIVEN, Source.EMBEDDED)),
        (REDIS, ServerChoice(Source.EMBEDDED, Source.GIVEN)),
        (DATABASE | REDIS, ServerChoice(Source.GIVEN, Source.GIVEN)),
        ({"BEACON_TEST_SERVERS": "docker"}, ServerChoice(Source.DOCKER, Source.DOCKER)),
        (DATABASE | REDIS | {"BEACON_TEST_SERVERS": "docker"}, ServerChoice(Source.DOCKER, Source.DOCKER)),
    ],
)
def test_servers_are_chosen_from_the_environment(environment: dict[str, str], expected: ServerChoice) -> None:
    assert choose_servers(environment) == expected


def test_an_unknown_source_is_refused() -> None:
    with pytest.raises(ServerChoiceError, match="must be 'embedded' or 'docker', got 'podman'"):
        choose_servers({"BEACON_TEST_SERVERS": "podman"})
