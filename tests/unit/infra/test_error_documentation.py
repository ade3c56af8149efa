"""`docs/errors.md` has one section for each error code."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from beacon_http import problems as framework
from beacon_router.http import problems as router
from beacon_runner.http import limit_errors, problems

ROOT = Path(__file__).parents[3]
SECTIONS = set(re.findall(r"^### (\w+)$", (ROOT / "docs/errors.md").read_text(), re.MULTILINE))
CONSTRUCTORS = {"make_problem", "HttpProblemError", "Problem"}


def test_every_error_code_has_a_section() -> None:
    assert codes_of_sources() | codes_of_tables() == SECTIONS


def codes_of_tables() -> set[str]:
    """Codes that are looked up by exception type or status."""
    return {
        *(code for _, code, _ in problems._SIMPLE.values()),
        *problems._OWN_CODES,
        *limit_errors._CODES.values(),
        limit_errors.TOO_LARGE,
        *(code for _, code in router._STATUS_AND_CODE.values()),
        *framework._FRAMEWORK_CODES.values(),
        "refused",
    }


def codes_of_sources() -> set[str]:
    """Codes that are literals in calls of the constructors of problems."""
    found: set[str] = set()
    for file in [*ROOT.glob("services/*/src/**/*.py"), *ROOT.glob("libs/*/src/**/*.py")]:
        found |= set(_literals(ast.parse(file.read_text())))
    return found


def _literals(tree: ast.AST) -> Iterator[str]:
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        name = getattr(call.func, "id", "super" if ast.unparse(call.func) == "super().__init__" else "")
        if name not in {*CONSTRUCTORS, "super"}:
            continue
        named = [keyword.value for keyword in call.keywords if keyword.arg == "code" and name == "Problem"]
        statused = len(call.args) > 2 and isinstance(call.args[0], ast.Constant)
        positional = call.args[1:2] if name != "Problem" and (name != "super" or statused) else []
        for value in (*named, *positional):
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield value.value
