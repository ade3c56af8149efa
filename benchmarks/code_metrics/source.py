"""Figures that are counted in the source of a checkout."""

import ast
import json
import subprocess
from pathlib import Path

PRODUCT = {".py", ".sql", ".lua", ".js"}
# The policy: which request runs next on a free slot. First the current files, then those that they replaced.
POLICY = (
    ("services/router/src/beacon_router/scheduling", "policy placement fair_share stride"),
    (
        "services/router/src/beacon_router/core",
        "asides bounds crowd dispatch fleet heads limits patience placing pools queues rehearsed_choice turns",  # noqa: E501
    ),
)


def product_lines(tree: Path) -> int:
    return sum(_lines(file) for file in _product_files(tree))


def policy_size(tree: Path) -> tuple[int, int]:
    """(lines, files) of the scheduling policy."""
    for folder, names in POLICY:
        named = [tree / folder / f"{name}.py" for name in names.split()]
        files = [file for file in named if file.exists()]
        if files:
            return sum(_lines(file) for file in files), len(files)
    return 0, 0


def internal_uses(tree: Path) -> list[str]:
    """Private members and private modules of other packages that are used, `noqa` or not.

    A class that extends one of those (`*_impl` modules are private by convention) uses each attribute of
    itself that it does not define.
    """
    uses = []
    for file in _product_files(tree):
        if file.suffix == ".py":
            parsed = ast.parse(file.read_text(encoding="utf-8"))
            name = file.relative_to(tree)
            uses += [f"{name} {use}" for use in (*_private_imports(parsed), *_inherited_internals(parsed))]
    return uses + _private_members(tree)


def _private_imports(module: ast.Module) -> list[str]:
    return [
        f"imports {node.module}"
        for node in ast.walk(module)
        if isinstance(node, ast.ImportFrom) and node.module and _is_internal(node.module)
    ]


def _inherited_internals(module: ast.Module) -> list[str]:
    internal = {
        alias.asname or alias.name
        for node in ast.walk(module)
        if isinstance(node, ast.ImportFrom) and node.module and _is_internal(node.module)
        for alias in node.names
    }
    uses = []
    for node in ast.walk(module):
        if isinstance(node, ast.ClassDef) and any(
            isinstance(base, ast.Name) and base.id in internal for base in node.bases
        ):
            used = {
                item.attr
                for item in ast.walk(node)
                if isinstance(item, ast.Attribute)
                and isinstance(item.value, ast.Name)
                and item.value.id == "self"
            }
            assigned = {
                item.attr
                for item in ast.walk(node)
                if isinstance(item, ast.Attribute) and isinstance(item.ctx, ast.Store)
            }
            methods = {
                item.name for item in node.body if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)
            }
            uses += [f"{node.name} uses {name}" for name in sorted((used | methods) - assigned)]
            uses.append(f"{node.name} extends a private class")
    return uses


def _is_internal(module: str) -> bool:
    if module.startswith("beacon_"):
        return False
    return any(
        (part.startswith("_") and part != "__future__") or part.endswith("_impl")
        for part in module.split(".")
    )


def _private_members(tree: Path) -> list[str]:
    options = "--no-cache --isolated --preview --ignore-noqa --select SLF001,PLC2701 --output-format json"
    command = [str(tree / ".venv/bin/python"), "-m", "ruff", "check", *options.split(), "services", "libs"]
    found = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)
    problems = json.loads(found.stdout)
    return [
        f"{Path(one['filename']).relative_to(tree)}:{one['location']['row']} {one['message']}"
        for one in problems
    ]


def _product_files(tree: Path) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "services", "libs"], cwd=tree, capture_output=True, text=True, check=True
    )
    files = [tree / name for name in listed.stdout.splitlines()]
    return [file for file in files if file.suffix in PRODUCT and file.exists()]


def _lines(file: Path) -> int:
    return len(file.read_text(encoding="utf-8").splitlines())
