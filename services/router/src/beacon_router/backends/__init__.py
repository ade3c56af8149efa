"""Speaking to GPU endpoints: one dialect per kind, one way to say what went wrong."""

from beacon_router.backends.pool import Pool
from beacon_router.backends.registry import build_backends
from beacon_router.backends.types import Answer, Attempt, Backend, BackendCall, BackendError, Result

__all__ = [
    "Answer",
    "Attempt",
    "Backend",
    "BackendCall",
    "BackendError",
    "Pool",
    "Result",
    "build_backends",
]
