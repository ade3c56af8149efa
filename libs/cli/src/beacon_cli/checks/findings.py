"""Results of the checks of `beacon doctor`."""

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check, with advice where it failed."""

    name: str
    verdict: Verdict
    detail: str
    what_to_do: str = ""


def failed(name: str, detail: str, what_to_do: str) -> Finding:
    return Finding(name, Verdict.FAILED, detail, what_to_do)
