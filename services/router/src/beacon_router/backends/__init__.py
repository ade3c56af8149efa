"""Calls to GPU backends: one HTTP client, one adapter per dialect, one error type."""

from beacon_router.backends.client import DIRECT, BackendClient, BackendTransport
from beacon_router.backends.registry import (
    BackendKeyError,
    build_backends,
    check_backends,
    health_url,
    transport_of,
)
from beacon_router.backends.types import Backend, BackendCall, BackendError, BackendFault, BackendResult

__all__ = [
    "DIRECT",
    "Backend",
    "BackendCall",
    "BackendClient",
    "BackendError",
    "BackendFault",
    "BackendKeyError",
    "BackendResult",
    "BackendTransport",
    "build_backends",
    "check_backends",
    "health_url",
    "transport_of",
]
