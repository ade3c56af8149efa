"""What a client learns whose connection is one too many."""

from collections.abc import Callable

from beacon_http.problems import make_problem
from beacon_http.replies import problem_reply
from beacon_lifecycle.http_crowds import Crowd, connections_allowed

_FULL = make_problem(
    503, "too_many_connections", "this process serves no more connections: come back", retry_after_s=1
)


def crowd_of(connections: int, refused: Callable[[], None]) -> Crowd:
    """`connections` as the configuration has it."""
    return Crowd(
        connections_allowed(connections), problem_reply(_FULL).encoded((b"connection", b"close")), refused
    )
