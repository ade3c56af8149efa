"""Why a stream of events ends: for machines and for people, over both doors."""

from dataclasses import dataclass

import orjson

from beacon_http.problems import HttpProblemError
from beacon_runner.http.problems import EXPECTED, problem_of

STREAM_END = b"STREAM_END"
_COME_BACK = "come back with the last number you have"
TOLD: tuple[type[Exception], ...] = (HttpProblemError, *EXPECTED)  # errors that a client is told of
_LONGEST_REASON = 123  # bytes, of a WebSocket's closing frame


@dataclass(frozen=True, slots=True)
class Ending:
    """`close_code` is the WebSocket's; the codes are those of RFC 6455 and its registry."""

    reason: str
    message: str
    close_code: int

    def sse(self) -> bytes:
        """Without an id: what a client asks for next time is still the last event that it has."""
        data = orjson.dumps({"reason": self.reason, "message": self.message})
        return b"event: %s\ndata: %s\n\n" % (STREAM_END, data)

    @property
    def close_reason(self) -> str:
        return self.message.encode()[:_LONGEST_REASON].decode(errors="ignore")


OVER = Ending("job_over", "the job is over", 1000)
STOPPING = Ending("server_stopping", f"this server stops: {_COME_BACK}", 1012)


def ending_of(error: Exception) -> Ending:
    """The end of a stream whose next events cannot be read."""
    problem, _ = problem_of(error)
    return Ending(problem.code, problem.detail or problem.title, 1013 if problem.status == 503 else 1011)
