"""The raw measurements, from which the report can be written again."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.harness.process import ROOT
from benchmarks.runner.plan import Plan, Rounds, Section

RESULTS = ROOT / "benchmarks" / "results"
FILE = "runner.json"


@dataclass(slots=True)
class Findings:
    """Sections by name; a section that is measured again replaces the earlier one."""

    sections: dict[str, dict[str, Any]] = field(default_factory=dict)
    path: Path = RESULTS / FILE

    @classmethod
    def kept(cls, path: Path = RESULTS / FILE) -> "Findings":
        if not path.exists():
            return cls(path=path)
        return cls(json.loads(path.read_text(encoding="utf-8")), path)

    def keep(self, section: Section, plan: Plan, facts: dict[str, str], peers: dict[str, str]) -> None:
        measured = {"seed": plan.seed, "scale": plan.scale, "facts": facts, "peers": peers}
        self.sections[section.name] = {**section.document(), **measured}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(_rounded(self.sections), indent=1) + "\n", encoding="utf-8")

    def rounds(self, section: str) -> Rounds:
        found: Rounds = self.sections.get(section, {}).get("rounds", [])
        return found

    def said(self, section: str, kind: str) -> dict[str, Any]:
        """`settings`, `failures`, `facts` or `peers` of a section."""
        found: dict[str, Any] = self.sections.get(section, {}).get(kind, {})
        return found


def _rounded(value: Any) -> Any:
    """Five digits: more would be noise."""
    match value:
        case float():
            return float(f"{value:.5g}")
        case dict():
            return {name: _rounded(one) for name, one in value.items()}
        case list():
            return [_rounded(one) for one in value]
        case _:
            return value
