"""Server-sent events as text lines, taken apart. Pure: the stream belongs to the caller."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServerEvent:
    name: str
    data: str
    id: str | None


class EventLines:
    """Collects the lines of one event; the empty line ends it (WHATWG, section 9.2)."""

    def __init__(self) -> None:
        self._name = "message"
        self._data: list[str] = []
        self._id: str | None = None

    def take(self, line: str) -> ServerEvent | None:
        """The event that this line completes, if it completes one."""
        if not line:
            return self._complete()
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match field:
            case "data":
                self._data.append(value)
            case "event":
                self._name = value
            case "id":
                self._id = value
            case _:
                pass  # a comment (the heartbeat), or a field that means nothing here
        return None

    def _complete(self) -> ServerEvent | None:
        name, data, self._name, self._data = self._name, self._data, "message", []
        return ServerEvent(name, "\n".join(data), self._id) if data else None
