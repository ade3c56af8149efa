"""Callbacks for the events of the RunController: metrics, health checks, shared limits."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from beacon_router.service.inference import Inference, Run
from beacon_router.service.outcome import RunOutcome


@dataclass(frozen=True, slots=True)
class RunEvents:
    """The callbacks of an event are called in the order of the sequence."""

    run_started: Sequence[Callable[[Run], None]] = ()
    run_ended: Sequence[Callable[[Run, RunOutcome], None]] = ()
    """Called before the freed slot is assigned again."""
    inference_ended: Sequence[Callable[[Inference], None]] = ()
    before_dispatch: Sequence[Callable[[], None]] = ()
    """Called before each decision on what starts."""
    dispatched: Sequence[Callable[[], None]] = ()
    """All that can start now has started."""
