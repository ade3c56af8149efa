"""What `beacon --help` and `import beacon_client` load."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        ("beacon_cli", ("beacon_client", "httpx", "pydantic", "asyncpg", "redis")),
        (
            "beacon_client",
            ("aiohttp", "asyncpg", "redis", "structlog", "tenacity", "typer", "orjson"),
        ),
    ],
)
def test_heavy_packages_are_not_imported(module: str, unwanted: tuple[str, ...]) -> None:
    code = f"import sys, {module}; print(*(set(sys.modules) & set({unwanted!r})))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == []
