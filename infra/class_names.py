"""`python -m infra.class_names`: is a public class name defined twice in services/ and libs/?"""

import ast
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]


def duplicate_class_names(tree: Path) -> Mapping[str, list[Path]]:
    """The modules of each public class name that has more than one definition."""
    modules: dict[str, list[Path]] = defaultdict(list)
    for folder in ("services", "libs"):
        for path in sorted((tree / folder).glob("*/src/**/*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    modules[node.name].append(path.relative_to(tree))
    return {name: paths for name, paths in sorted(modules.items()) if len(paths) > 1}


def main() -> int:
    found = duplicate_class_names(ROOT)
    for name, paths in found.items():
        sys.stderr.write(f"class {name} is defined more than once: {', '.join(map(str, paths))}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
