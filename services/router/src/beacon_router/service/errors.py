"""Reasons why the router refuses a request. They know nothing of HTTP."""

from dataclasses import dataclass


class DispatchError(Exception):
    """`str(error)` is a sentence for the client."""


@dataclass(slots=True)
class TemporaryRefusalError(DispatchError):
    """Not accepted; the client may retry after `retry_after_s`."""

    reason: str
    retry_after_s: float

    def __str__(self) -> str:
        return self.reason


class QueueFullError(TemporaryRefusalError):
    """The maximum number of inferences waits."""


class MemoryFullError(TemporaryRefusalError):
    """The bytes of all known inferences are at their limit."""


class NoBackendError(TemporaryRefusalError):
    """No configured backend serves this model where it may run."""


class BackendsDownError(TemporaryRefusalError):
    """All backends that could serve it are unavailable."""


class StoppingError(TemporaryRefusalError):
    """The router is stopping."""


class UnknownInferenceError(DispatchError):
    """Never seen, or its result has expired."""


class StaleFenceError(DispatchError):
    """A request with a higher fence has replaced this one."""


class RequestIdReusedError(DispatchError):
    """The id is already used for another model or region."""


class StartByPassedError(DispatchError):
    """The request arrived after its `start_by`."""
