"""The token counts of a streamed chat completion, read as it passes."""

from collections.abc import Mapping

import orjson

MAX_LINE_BYTES = 65_536
MAX_TOKENS = 10**12
_FIELD = b'"usage"'
_DATA = b"data:"


class StreamUsage:
    """Passes a stream on line by line. With `drop`, the chunk that has nothing but counts is left out:
    clients that have not asked for it expect a choice in each chunk."""

    def __init__(self, *, drop: bool) -> None:
        self.counts: Mapping[str, int] | None = None
        self._drop = drop
        self._line = bytearray()
        """The beginning of a line that is not complete."""
        self._dropped = False
        """The last line was dropped; so are the empty lines after it, which end its event."""

    def feed(self, piece: bytes) -> bytes:
        """What can be passed on now: complete lines, and lines that are too long for counts."""
        end = max(piece.rfind(b"\n"), piece.rfind(b"\r")) + 1
        if not end and len(self._line) + len(piece) <= MAX_LINE_BYTES:
            self._line += piece
            return b""
        if not end:
            return self._taken() + piece
        lines = self._taken() + piece[:end]
        self._line += piece[end:]
        if self._dropped or _FIELD in lines:
            lines = b"".join(map(self._passed_on, lines.splitlines(keepends=True)))
        return lines + self._taken() if len(self._line) > MAX_LINE_BYTES else lines

    def rest(self) -> bytes:
        """The last line, if the stream has ended inside it."""
        return self._taken()

    def _taken(self) -> bytes:
        line = bytes(self._line)
        self._line.clear()
        return line

    def _passed_on(self, line: bytes) -> bytes:
        if self._dropped and not line.strip():
            return b""
        self._dropped = False
        if _FIELD not in line or not line.startswith(_DATA):
            return line
        try:
            chunk = orjson.loads(line[len(_DATA) :])
        except orjson.JSONDecodeError:
            return line
        if not isinstance(chunk, dict) or "usage" not in chunk:
            return line
        usage = chunk["usage"]
        if usage is None:  # clients that read it expect an object
            del chunk["usage"]
            return b"%s %s%s" % (_DATA, orjson.dumps(chunk), line[len(line.rstrip()) :])
        self.counts = token_usage(usage) or self.counts
        self._dropped = self._drop and not chunk.get("choices")
        return b"" if self._dropped else line


def is_usage_wanted(params: bytes) -> bool:
    """The client asks for the counts of its stream."""
    if b"include_usage" not in params:
        return False
    options = orjson.loads(params).get("stream_options")
    return isinstance(options, dict) and options.get("include_usage") is True


def token_usage(value: object) -> dict[str, int] | None:
    """The counts of an OpenAI-compatible `usage` object."""
    if not isinstance(value, dict):
        return None
    counts = {name: value.get(name) for name in ("prompt_tokens", "completion_tokens", "total_tokens")}
    found = {name: count for name, count in counts.items() if type(count) is int and 0 <= count <= MAX_TOKENS}
    return found or None
