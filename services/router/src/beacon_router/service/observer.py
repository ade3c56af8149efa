"""Who is told what happens: the metrics, in a running router."""

from typing import Protocol

from beacon_router.service.inference import Inference, Run
from beacon_router.service.outcome import RunEnd


class Observer(Protocol):
    def started(self, run: Run) -> None: ...

    def run_ended(self, run: Run, end: RunEnd) -> None: ...

    def ended(self, inference: Inference) -> None: ...


class Observers:
    """Tells each in turn; nobody when there is none."""

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers

    def started(self, run: Run) -> None:
        for observer in self._observers:
            observer.started(run)

    def run_ended(self, run: Run, end: RunEnd) -> None:
        for observer in self._observers:
            observer.run_ended(run, end)

    def ended(self, inference: Inference) -> None:
        for observer in self._observers:
            observer.ended(inference)
