"""Cancelled jobs that the routers have not confirmed yet."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from beacon_contracts.ids import JobId
from beacon_contracts.inference import InferenceView, RemoteRun
from beacon_runner.domain.execution.plan import ExecutionKey


@dataclass(frozen=True, slots=True)
class RouterCancel:
    """A cancelled job with executions that may be at a router, under fences below `fence`.

    `age_s`: for how long the routers have not confirmed. `remotes`, by ordinal: runs at backends.
    `started`: ordinals of those that are recorded as started on a GPU.
    """

    job: JobId
    fence: int
    executions: tuple[ExecutionKey, ...]
    age_s: float = 0.0
    remotes: Mapping[int, RemoteRun] = field(default_factory=dict)
    started: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class CancelledRun:
    """An execution of a cancelled job that a backend received."""

    execution: ExecutionKey
    view: InferenceView


class CancelStore(Protocol):
    async def take(self, limit: int) -> Sequence[RouterCancel]:
        """The cancels that are due; each is returned again, with a growing delay, until it is settled."""
        ...

    async def settle(self, job: JobId, fence: int, runs: Sequence[CancelledRun]) -> None:
        """The routers have confirmed. A paid price is refunded unless something ran, or the job goes on."""
        ...
