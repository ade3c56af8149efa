"""Calls to GPU backends: one HTTP client, one adapter per dialect, one error type."""

from beacon_router.backends.client import BackendClient
from beacon_router.backends.registry import BackendKeyError, build_backends
from beacon_router.backends.types import Backend, BackendCall, BackendError, BackendResult

__all__ = [
    "Backend",
    "BackendCall",
    "BackendClient",
    "BackendError",
    "BackendKeyError",
    "BackendResult",
    "build_backends",
]
