"""Input, result and errors of one attempt on a backend."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import aiohttp
from yarl import URL

from beacon_contracts.failures import FailureStage
from beacon_contracts.files import InputFile, OutputFile
from beacon_contracts.inference import RunProgress, StepMeta

EMPTY_OBJECT = b"{}"
MAX_MESSAGE_LENGTH = 500
"""Of an error: it may quote what a backend sent, and is kept as long as a result."""


class BackendCall(Protocol):
    """The part of an inference that a backend receives. Bodies are JSON text and are not parsed again."""

    @property
    def id(self) -> str: ...
    @property
    def model(self) -> str: ...
    @property
    def input(self) -> bytes: ...
    @property
    def params(self) -> bytes: ...
    @property
    def context(self) -> bytes: ...
    @property
    def meta(self) -> StepMeta | None: ...
    @property
    def files(self) -> Sequence[InputFile]: ...


class BackendFault(NamedTuple):
    """Why a backend cannot be used at all: its operator's to correct, never a request's. Without its text."""

    code: str
    message: str


class BackendResult(NamedTuple):
    """`output` is JSON text.

    Durations are those that the backend reported; None if it reported none.
    """

    output: bytes
    load_s: float | None = None
    run_s: float | None = None
    usage: Mapping[str, int] | None = None
    """Tokens, where the backend counts them."""
    response: bytes | None = None
    """The complete JSON response of an OpenAI-compatible backend."""
    files: tuple[OutputFile, ...] = ()
    """The files that `output` refers to."""


@dataclass(slots=True)
class BackendError(Exception):
    """A failed attempt. `counts_as_failure`: the circuit breaker counts it against the backend."""

    code: str
    stage: FailureStage
    retryable: bool
    message: str
    counts_as_failure: bool = True
    status: int | None = None
    retry_after_s: float | None = None
    error: Mapping[str, Any] | None = None
    """The error object of the response, as OpenAI-compatible servers send it."""
    model_state_unknown: bool = False
    """The backend may have lost the model: the next run there counts as a cold start."""
    remote_alive: bool = False
    """The run may go on at its provider: the next attempt continues it."""
    fault: BackendFault | None = None
    """Set if no request can succeed there: its breaker opens, and the work waits uncharged."""

    def __post_init__(self) -> None:
        self.message = self.message[:MAX_MESSAGE_LENGTH]
        Exception.__init__(self, f"{self.code}: {self.message}")


class Sink(Protocol):
    """Receives a streamed response; `write` waits while the reader is behind."""

    async def write(self, piece: bytes) -> None: ...


class RunObserver(Protocol):
    """Receives what a backend reports of a run that has not ended."""

    run_id: str | None
    """The run at the provider that this attempt continues."""
    detached: bool
    """A cancelled call leaves its run at the provider, where another router continues it."""

    def submitting(self) -> None:
        """Only the submission is bounded until the run is reported as running."""
        ...

    def named(self, run_id: str) -> None:
        """The provider has accepted the run."""
        ...

    def waiting(self) -> None:
        """It waits or starts at the provider."""
        ...

    def running(self) -> None: ...

    def progressed(self, progress: RunProgress) -> None: ...

    def not_cancelled(self, run_id: str) -> None:
        """The run goes on at its provider, although nobody wants its result."""
        ...


class RemoteControl(Protocol):
    """Of a backend whose runs go on without a connection."""

    async def cancel(self, run_id: str) -> None:
        """End a run; one that has ended or is unknown is fine. Raises BackendError."""
        ...


class Backend(Protocol):
    @property
    def remote(self) -> RemoteControl | None: ...

    async def run(
        self,
        call: BackendCall,
        *,
        attempt: int = 1,
        sink: Sink | None = None,
        observer: RunObserver | None = None,
    ) -> BackendResult:
        """One attempt; raises BackendError. A backend that streams writes its response to `sink`.

        When the task is cancelled, the connection is closed before the task ends, and a run at a provider
        is cancelled there.
        """
        ...


class WireRequest(NamedTuple):
    """One HTTP request to a backend. A function makes a body anew for each time that it is sent."""

    method: str
    url: URL
    headers: Mapping[str, str]
    body: bytes | Callable[[], aiohttp.Payload] | None = None


class WireResponse(NamedTuple):
    """One complete HTTP response; `headers` are case-insensitive."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""
    file: Mapping[str, Any] | None = None
    """The reference of the file in which the body is kept."""


class ResponseReader(Protocol):
    async def read(self, head: WireResponse, content: aiohttp.StreamReader) -> WireResponse:
        """Read the body of a successful response."""
        ...
