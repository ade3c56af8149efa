"""The check of class names finds public names with two definitions, and no others."""

from pathlib import Path

from infra.class_names import duplicate_class_names, main


def write(tree: Path, name: str, text: str) -> None:
    path = tree / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_a_public_name_with_two_definitions_is_found(tmp_path: Path) -> None:
    write(tmp_path, "services/a/src/a/one.py", "class Twice: ...\nclass Once: ...\nclass _Private: ...\n")
    write(tmp_path, "libs/b/src/b/two.py", "if True:\n    class Twice: ...\nclass _Private: ...\n")
    assert duplicate_class_names(tmp_path) == {
        "Twice": [Path("services/a/src/a/one.py"), Path("libs/b/src/b/two.py")]
    }


def test_tests_and_benchmarks_do_not_count(tmp_path: Path) -> None:
    write(tmp_path, "services/a/src/a/one.py", "class Job: ...\n")
    write(tmp_path, "tests/two.py", "class Job: ...\n")
    assert not duplicate_class_names(tmp_path)


def test_no_name_is_defined_twice_here() -> None:
    assert main() == 0
