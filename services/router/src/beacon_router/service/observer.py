"""Events of the RunController, for metrics, health checks and shared limits."""

from typing import Protocol

from beacon_router.service.inference import Inference, Run
from beacon_router.service.outcome import RunOutcome


class RunObserver(Protocol):
    def run_started(self, run: Run) -> None: ...

    def run_ended(self, run: Run, outcome: RunOutcome) -> None:
        """Called before the freed slot is assigned again."""
        ...

    def inference_ended(self, inference: Inference) -> None: ...

    def dispatched(self) -> None:
        """All that can start now has started."""
        ...


class NullObserver:
    """Base of observers that need only some of the events."""

    def run_started(self, run: Run) -> None:
        pass

    def run_ended(self, run: Run, outcome: RunOutcome) -> None:
        pass

    def inference_ended(self, inference: Inference) -> None:
        pass

    def dispatched(self) -> None:
        pass


class Observers:
    """Forwards each event to all observers."""

    def __init__(self, *observers: RunObserver) -> None:
        self._observers = observers

    def run_started(self, run: Run) -> None:
        for observer in self._observers:
            observer.run_started(run)

    def run_ended(self, run: Run, outcome: RunOutcome) -> None:
        for observer in self._observers:
            observer.run_ended(run, outcome)

    def inference_ended(self, inference: Inference) -> None:
        for observer in self._observers:
            observer.inference_ended(inference)

    def dispatched(self) -> None:
        for observer in self._observers:
            observer.dispatched()
