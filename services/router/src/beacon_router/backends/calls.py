"""What a backend is asked, what it answers, and how it fails."""

from dataclasses import dataclass, field
from typing import Any, Protocol

from beacon_contracts.failures import FailureStage
from beacon_contracts.inference import StepMeta

EMPTY_OBJECT = b"{}"


@dataclass(frozen=True, slots=True)
class BackendCall:
    """One attempt. The parts are JSON text already: nothing is parsed again to be sent."""

    request_id: str
    model: str
    input: bytes
    params: bytes = EMPTY_OBJECT
    context: bytes = EMPTY_OBJECT
    meta: StepMeta | None = None
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class Answer:
    """`output` is JSON text. The seconds are the backend's own account, None where it gives none."""

    output: bytes
    load_s: float | None = None
    run_s: float | None = None
    metrics: dict[str, Any] = field(default_factory=dict)
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


class Backend(Protocol):
    """Raises BackendError and nothing else; a cancelled call has closed its connection when it returns."""

    async def run(self, call: BackendCall) -> Answer: ...
