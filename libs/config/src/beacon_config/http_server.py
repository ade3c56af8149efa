"""Limits on the connections and requests of an HTTP server."""

from pydantic import Field

from beacon_config.section import RESTART, Count, PositiveSeconds, Section


class HttpServerConfig(Section):
    """Limits on clients of one process. The sections of both services have these keys."""

    connections: Count = Field(
        default=4_096,
        description="Connections that one process serves at once; at most half of the files that it may open",
        json_schema_extra=RESTART,
    )
    head_timeout_s: PositiveSeconds = Field(
        default=10.0, description="Time limit for the head of a request", json_schema_extra=RESTART
    )
    body_timeout_s: PositiveSeconds = Field(
        default=30.0, description="Time limit for the whole body of a request", json_schema_extra=RESTART
    )
    reader_timeout_s: PositiveSeconds = Field(
        default=30.0,
        description="Time after which a client that reads nothing of its response is disconnected",
        json_schema_extra=RESTART,
    )
