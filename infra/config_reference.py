"""Writes docs/configuration.md from the models; with --check it fails if the page is stale."""

import sys
from pathlib import Path

from beacon_config.reference import markdown

PAGE = Path(__file__).parents[1] / "docs" / "configuration.md"


def main(arguments: list[str]) -> int:
    text = markdown()
    if "--check" not in arguments:
        PAGE.write_text(text, encoding="utf-8")
        return 0
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == text:
        return 0
    sys.stderr.write("docs/configuration.md is stale: run `make reference`\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
