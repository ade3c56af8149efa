"""Why the router does not take, or no longer has, an inference. They know nothing of HTTP."""

from dataclasses import dataclass


class DispatchError(Exception):
    """`str(error)` is a sentence for the caller."""


@dataclass(slots=True)
class RefusedForNowError(DispatchError):
    """Not accepted; asking again after `retry_after_s` makes sense."""

    reason: str
    retry_after_s: float

    def __str__(self) -> str:
        return self.reason


class QueueFullError(RefusedForNowError):
    """As many wait as may wait."""


class MemoryFullError(RefusedForNowError):
    """The bytes of all that waits and runs are at their bound."""


class NoBackendError(RefusedForNowError):
    """Nothing that is configured can serve this model where it may run."""


class BackendsDownError(RefusedForNowError):
    """Every backend that could serve it is failing."""


class StoppingError(RefusedForNowError):
    """The router is on its way out."""


class UnknownInferenceError(DispatchError):
    """Never seen, or its result is no longer kept."""


class StaleFenceError(DispatchError):
    """Somebody with a newer lease has taken this inference over."""


class RequestIdReusedError(DispatchError):
    """The id names other work that is known already."""


class StartByPassedError(DispatchError):
    """It came after the moment by which it was to start."""
