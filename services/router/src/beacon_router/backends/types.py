"""What a backend is asked, what it answers, and how it fails."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from beacon_contracts.failures import FailureStage
from beacon_contracts.inference import StepMeta

EMPTY_OBJECT = b"{}"


class BackendCall(NamedTuple):
    """One attempt. The parts are JSON text already: nothing is parsed again to be sent."""

    request_id: str
    model: str
    input: bytes
    params: bytes = EMPTY_OBJECT
    context: bytes = EMPTY_OBJECT
    meta: StepMeta | None = None
    attempt: int = 1


class Answer(NamedTuple):
    """`output` is JSON text. The seconds are the backend's own account, None where it gives none."""

    output: bytes
    load_s: float | None = None
    run_s: float | None = None
    metrics: Mapping[str, Any] = MappingProxyType({})
    document: bytes | None = None
    """The whole chat completion, from backends that speak OpenAI."""


@dataclass(slots=True)
class BackendError(Exception):
    """An attempt that did not work. `blame` tells the breaker whether it was the backend's doing."""

    code: str
    stage: FailureStage
    retryable: bool
    message: str
    blame: bool = True
    status: int | None = None
    retry_after_s: float | None = None
    loses_model: bool = False
    """After it, nobody knows whether the backend still holds the model."""

    def __post_init__(self) -> None:
        Exception.__init__(self, f"{self.code}: {self.message}")


Result = Answer | BackendError


class Source(Protocol):
    """Where a streamed answer comes from; both may be called at any time, and again."""

    def pause(self) -> None: ...

    def resume(self) -> None: ...


class Sink(Protocol):
    """Takes the pieces of a streamed answer, and holds the source back when there are too many."""

    def opened(self, source: Source) -> None: ...

    def feed(self, piece: bytes) -> None: ...


class Attempt(Protocol):
    def cancel(self) -> None:
        """End it now: its connection is closed when this returns, and nothing is told any more."""


class Backend(Protocol):
    def start(self, call: BackendCall, ended: Callable[[Result], None], sink: Sink | None = None) -> Attempt:
        """Begin an attempt. `ended` is called once, later, unless the attempt is cancelled first.

        A backend that can stream gives the answer to `sink` in pieces, if there is one. A call that cannot
        be put into the backend's words raises its BackendError at once.
        """
        ...
