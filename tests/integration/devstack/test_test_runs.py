"""A run of tests as the person at the terminal sees it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fixtures.server_pair import ServerPair

ROOT = Path(__file__).parents[3]
ONE_TEST = "tests/integration/devstack/test_fixtures.py::test_each_redis_database_is_empty_and_exclusive"


def run_tests(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
        cwd=ROOT,
        env={**clean, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_missing_docker_engine_gives_one_sentence(workers: str, tmp_path: Path) -> None:
    done = run_tests(
        "-n", workers, ONE_TEST, BEACON_TEST_SERVERS="docker", DOCKER_HOST=f"unix://{tmp_path}/no-engine"
    )
    said = done.stdout + done.stderr
    assert done.returncode != 0
    assert said.count("make test-docker needs a running Docker engine and none answers") == 1
    assert "Traceback" not in said


def test_given_servers_are_used_as_they_are(servers: ServerPair) -> None:
    """The run inside takes the servers of the run outside; if it started its own, Postgres would say so."""
    done = run_tests(
        ONE_TEST, DATABASE_URL=servers.database_url, REDIS_URL=servers.redis_url, PATH="/nonexistent"
    )
    assert done.returncode == 0, done.stdout + done.stderr
