"""The reasons for which a stream of events ends, for server-sent events and WebSockets."""

from dataclasses import dataclass

import orjson

from beacon_runner.http.problems import problem_of

STREAM_END = b"STREAM_END"
_RECONNECT = "reconnect with the number of your last event"
_MAX_REASON_BYTES = 123  # of a WebSocket close frame


@dataclass(frozen=True, slots=True)
class StreamEnd:
    """`close_code` is that of the WebSocket (RFC 6455 and its registry)."""

    reason: str
    message: str
    close_code: int

    def sse(self) -> bytes:
        """Without an id, so that the client's last event id stays that of a real event."""
        data = orjson.dumps({"reason": self.reason, "message": self.message})
        return b"event: %s\ndata: %s\n\n" % (STREAM_END, data)

    @property
    def close_reason(self) -> str:
        return self.message.encode()[:_MAX_REASON_BYTES].decode(errors="ignore")


JOB_OVER = StreamEnd("job_over", "the job has ended", 1000)
SERVER_STOPPING = StreamEnd("server_stopping", f"this server stops; {_RECONNECT}", 1012)


def stream_end_of(error: Exception) -> StreamEnd:
    """The end of a stream after an error."""
    problem, _ = problem_of(error)
    return StreamEnd(problem.code, problem.detail or problem.title, 1013 if problem.status == 503 else 1011)
