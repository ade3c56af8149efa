"""Speaking to GPU endpoints: one adapter per dialect, one way to say what went wrong."""

from beacon_router.backends.calls import Answer, Backend, BackendCall, BackendError
from beacon_router.backends.registry import build_backends
from beacon_router.backends.sender import HttpSender, new_session

__all__ = [
    "Answer",
    "Backend",
    "BackendCall",
    "BackendError",
    "HttpSender",
    "build_backends",
    "new_session",
]
