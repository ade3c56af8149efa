"""One file of a multipart form, read while it arrives: nothing is written to a temporary file."""

from collections.abc import AsyncIterator
from email.message import Message

from python_multipart.exceptions import MultipartParseError
from python_multipart.multipart import MultipartParser, parse_options_header

from beacon_http.problems import HttpProblemError
from beacon_runner.domain.errors import InvalidFieldsError

FIELD = "file"
MAX_PARTS = 1_000
_PLAIN = frozenset({"", "identity", "binary", "8bit", "7bit"})
_ENCODINGS = {
    b"content-encoding": "Content-Encoding",
    b"content-transfer-encoding": "Content-Transfer-Encoding",
}


def require_plain(header: str, encoding: str) -> None:
    """Refuse bytes that are not the file itself: nothing would decode them when it is used."""
    for one in encoding.split(","):
        if one.strip().lower() not in _PLAIN:
            detail = (
                f"the {header} {one.strip()[:40]} is not supported: send the bytes of the file themselves"
            )
            raise HttpProblemError(415, "unsupported_encoding", detail)


class FormFile:
    """The part `file`; other parts are skipped. First `find`, then `chunks`."""

    def __init__(self, content_type: str, body: AsyncIterator[bytes]) -> None:
        _, options = parse_options_header(content_type)
        if not options.get(b"boundary"):
            raise _invalid("the Content-Type has no boundary")
        self.name = ""
        self._body = body
        self._header: tuple[bytearray, bytearray] = bytearray(), bytearray()
        self._encodings: list[tuple[str, str]] = []  # of the part
        self._pieces: list[bytes] = []
        self._parts = 0
        self._inside = False
        self._found = False
        self._complete = False
        self._parser = MultipartParser(
            options[b"boundary"],
            {
                "on_part_begin": self._begin_part,
                "on_header_field": lambda data, start, end: self._add_header(0, data[start:end]),
                "on_header_value": lambda data, start, end: self._add_header(1, data[start:end]),
                "on_header_end": self._end_header,
                "on_headers_finished": self._end_headers,
                "on_part_data": self._add_data,
                "on_part_end": self._end_part,
            },
        )

    async def find(self) -> None:
        """Read up to the first bytes of the file."""
        while not self._found:
            if not await self._feed():
                raise InvalidFieldsError.of(FIELD, "the form needs one part of this name with a file")

    async def chunks(self) -> AsyncIterator[bytes]:
        more = True
        while more:
            for piece in self._pieces:
                yield piece
            self._pieces.clear()
            more = await self._feed()
        if not self._complete:
            raise _invalid("the form ends inside of the file")

    async def _feed(self) -> bool:
        """Parse the next part of the body; false at its end."""
        data = await anext(self._body, b"")
        try:
            self._parser.write(data)
        except MultipartParseError as error:
            raise _invalid(str(error)) from error
        return bool(data)

    def _begin_part(self) -> None:
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise _invalid(f"it has more than {MAX_PARTS} parts")

    def _add_header(self, part: int, data: bytes) -> None:
        self._header[part].extend(data)

    def _end_header(self) -> None:
        field, value = bytes(self._header[0]).lower(), bytes(self._header[1])
        self._header = bytearray(), bytearray()
        if field in _ENCODINGS:
            self._encodings.append((_ENCODINGS[field], value.decode("latin-1")))
        elif field == b"content-disposition" and not self._found:
            _, options = parse_options_header(value)
            name = options.get(b"filename") or _extended_name(value)
            if options.get(b"name") == FIELD.encode() and name is not None:
                self.name = name.decode("utf-8", "replace")
                self._inside = self._found = True

    def _end_headers(self) -> None:
        if self._inside:
            for header, encoding in self._encodings:
                require_plain(header, encoding)
        self._encodings.clear()

    def _add_data(self, data: bytes, start: int, end: int) -> None:
        if self._inside:
            self._pieces.append(data[start:end])

    def _end_part(self) -> None:
        self._complete = self._complete or self._inside
        self._inside = False


def _extended_name(disposition: bytes) -> bytes | None:
    """The value of `filename*` (RFC 5987), which some clients send instead of `filename`."""
    message = Message()
    message["content-disposition"] = disposition.decode("latin-1")
    name = message.get_filename()
    return None if name is None else name.encode("utf-8", "replace")


def _invalid(detail: str) -> HttpProblemError:
    return HttpProblemError(400, "invalid_body", f"the form cannot be read: {detail}")
