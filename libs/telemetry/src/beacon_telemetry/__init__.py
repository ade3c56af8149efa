"""Structured logs, request ids that are passed between services, and metrics exposition."""

from beacon_telemetry.context import outgoing_headers
from beacon_telemetry.http_metrics import HttpMetrics
from beacon_telemetry.logs import LogFormat, configure_logging
from beacon_telemetry.metrics import metrics_route, new_registry
from beacon_telemetry.middleware import TelemetryMiddleware

__all__ = [
    "HttpMetrics",
    "LogFormat",
    "TelemetryMiddleware",
    "configure_logging",
    "metrics_route",
    "new_registry",
    "outgoing_headers",
]
