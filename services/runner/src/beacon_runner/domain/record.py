"""Values of the hot path: frozen for whoever reads and checks the code, cheap to make at run time."""

from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

Kind = TypeVar("Kind")


@dataclass_transform(frozen_default=True)
def record(kind: type[Kind]) -> type[Kind]:
    """A slotted dataclass that mypy takes for frozen.

    Freezing it for real would cost a call for every field of every value; a job makes about fifty of them.
    """
    return dataclass(slots=True, unsafe_hash=True)(kind)
