"""`python -m infra.doc_paths`: does every file, folder and function that the documentation names exist?

Checked are relative links and, in backticks, paths of files and folders. A path may be shortened to its end:
`worker/pool.py`. A definition follows two colons: `worker/pool.py::Pool.run_once`.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"\]\(([^)#\s]+)")
NAMED = re.compile(r"`([\w./-]*(?:\w\.(?:py|md|sql|lua|toml|ya?ml|js|sh|json|png|svg)|\w/))(?:::([\w.]+))?`")
# Written by a running system.
RUNTIME = re.compile(r"(?:^|/)(?:\.beacon/|\.venv/|credentials\.json$)")


def missing_names(tree: Path) -> list[str]:
    """One line for each name that does not exist."""
    files = _files(tree)
    found = []
    for document in files:
        if not document.endswith(".md") or document.startswith("benchmarks/"):
            continue
        text = (tree / document).read_text(encoding="utf-8")
        found += [f"{document}: no {name}" for name in _missing(tree, document, text, files)]
    return found


def _missing(tree: Path, document: str, text: str, files: Sequence[str]) -> Iterator[str]:
    for target in LINK.findall(text):
        if "://" not in target and not (tree / document).parent.joinpath(target).exists():
            yield target
    for path, definition in NAMED.findall(text):
        if path.startswith("/") or RUNTIME.search(path):
            continue
        named = [file for file in files if f"/{file}".endswith(f"/{path}")]
        if path.endswith("/"):
            named = [file for file in files if f"/{path}" in f"/{file}"]
        if not named:
            yield path
        elif definition and not any(definition in _definitions(tree / file) for file in named):
            yield f"{path}::{definition}"


def _definitions(file: Path) -> set[str]:
    """Functions, classes and methods, nested ones with the names of their owners."""
    if file.suffix == ".sql":
        return set(re.findall(r"^-- name: (\w+)", file.read_text(encoding="utf-8"), re.MULTILINE))
    names: set[str] = set()

    def collect(body: Sequence[ast.stmt], owner: str) -> None:
        for node in body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                names.add(owner + node.name)
                collect(node.body, f"{owner}{node.name}.")

    collect(ast.parse(file.read_text(encoding="utf-8")).body, "")
    return names


def _files(tree: Path) -> list[str]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(  # noqa: S603 - fixed arguments
        command, cwd=tree, capture_output=True, text=True, check=True
    )
    return [name for name in listed.stdout.splitlines() if (tree / name).exists()]


def main() -> int:
    missing = missing_names(ROOT)
    for line in missing:
        sys.stderr.write(f"{line}\n")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
