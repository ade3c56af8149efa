"""Structured logs, request ids that travel between services, and metrics exposition."""

from beacon_telemetry.context import log_context, outgoing_headers, request_id
from beacon_telemetry.http_metrics import HttpMetrics, HttpMetricsMiddleware
from beacon_telemetry.logs import LogFormat, configure_logging
from beacon_telemetry.metrics import metrics_endpoint, metrics_route, new_registry
from beacon_telemetry.middleware import (
    QUIET_PATHS,
    RequestContextMiddleware,
    bind_request,
    request_id_of,
)

__all__ = [
    "QUIET_PATHS",
    "HttpMetrics",
    "HttpMetricsMiddleware",
    "LogFormat",
    "RequestContextMiddleware",
    "bind_request",
    "configure_logging",
    "log_context",
    "metrics_endpoint",
    "metrics_route",
    "new_registry",
    "outgoing_headers",
    "request_id",
    "request_id_of",
]
