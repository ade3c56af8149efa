"""The check of the documentation finds files and functions that do not exist."""

import subprocess
from pathlib import Path

import pytest

from infra.doc_paths import main, missing_names


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "src" / "worker").mkdir(parents=True)
    (tmp_path / "src" / "worker" / "pool.py").write_text("class Pool:\n    def run(self): ...\n", "utf-8")
    return tmp_path


def named(tree: Path, text: str) -> list[str]:
    (tree / "page.md").write_text(text, encoding="utf-8")
    return missing_names(tree)


def test_paths_may_be_shortened_to_their_end(tree: Path) -> None:
    assert not named(tree, "`src/worker/pool.py`, `worker/pool.py`, `pool.py::Pool.run`, `worker/`")


@pytest.mark.parametrize(
    "name", ["`ool.py`", "`worker/gone.py`", "`pool.py::Pool.gone`", "`gone/`", "[a](b.md)"]
)
def test_a_name_that_does_not_exist_is_reported(tree: Path, name: str) -> None:
    assert len(named(tree, name)) == 1


def test_addresses_routes_and_runtime_files_are_not_checked(tree: Path) -> None:
    assert not named(tree, "[a](https://example.org/b.md) `/openapi.json` `.beacon/credentials.json` [c](#d)")


def test_everything_named_in_the_documentation_exists() -> None:
    assert main() == 0
