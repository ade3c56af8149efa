"""Who is told what happens: the metrics, in a running router."""

from typing import Protocol

from beacon_router.dispatch.inference import Inference, Run
from beacon_router.dispatch.settling import RunEnd


class Observer(Protocol):
    def started(self, run: Run) -> None: ...

    def run_ended(self, run: Run, end: RunEnd) -> None: ...

    def ended(self, inference: Inference) -> None: ...


class Silent:
    """Tells nobody."""

    def started(self, run: Run) -> None: ...

    def run_ended(self, run: Run, end: RunEnd) -> None: ...

    def ended(self, inference: Inference) -> None: ...
