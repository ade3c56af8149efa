"""Request bodies of `/v1`: received only into reserved memory, and kept no longer than they are parsed."""

from starlette.requests import Request

from beacon_contracts.ids import UserId
from beacon_http.problems import HttpProblemError
from beacon_http.request_body import content_length, discard_body, read_body
from beacon_runner.application.request_memory import NoRequestMemoryError, RequestMemory, ReservedMemory

DISCARD_TIMEOUT_S = 2.0


class ChatBodies:
    def __init__(self, memory: RequestMemory, max_bytes: int) -> None:
        self._memory = memory
        self._max_bytes = max_bytes

    async def read(self, request: Request, user: UserId) -> tuple[bytearray, ReservedMemory]:
        """The body, and its reserved memory. Raises NoRequestMemoryError and HttpProblemError."""
        announced = content_length(request.scope)
        size = self._max_bytes if announced is None else min(announced, self._max_bytes)
        try:
            _refuse_compressed(request)
            memory = self._memory.reserve(user, size)
        except (HttpProblemError, NoRequestMemoryError):
            # A client that is still sending does not read the response.
            await discard_body(request.scope, request.receive, self._max_bytes, DISCARD_TIMEOUT_S)
            raise
        try:
            return await read_body(request.receive), memory
        except BaseException:
            memory.release()
            raise


def _refuse_compressed(request: Request) -> None:
    """Its memory would not be known before it is decompressed."""
    encoding = request.headers.get("content-encoding", "identity")
    if encoding.strip().lower() != "identity":
        message = f"the body is encoded as {encoding[:40]!r}; send it as JSON without Content-Encoding"
        raise HttpProblemError(415, "unsupported_encoding", message)
