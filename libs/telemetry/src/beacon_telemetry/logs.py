"""One log pipeline per process: structlog and the standard library's loggers meet in it, on stdout."""

import logging
import sys
from collections.abc import Callable, MutableMapping
from contextlib import suppress
from typing import Any, Literal

import orjson
import structlog
from structlog.typing import Processor

from beacon_telemetry.redaction import redact

LogFormat = Literal["console", "json"]

# One line per outgoing call or accepted connection: ours are written by the middleware instead.
_CHATTY = ("httpx", "httpcore", "aiohttp.access", "uvicorn.access", "asyncio")


def configure_logging(service: str, fmt: LogFormat = "console", level: str | int = "info") -> None:
    """Send every log line of this process through one pipeline; call it once, before anything logs."""
    minimum = _level_number(level)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            _add_names(service),
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.StackInfoRenderer(),
            structlog.processors.format_exc_info,
            redact,
            _renderer(fmt),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(minimum),
        logger_factory=_Stdout,
        cache_logger_on_first_use=True,
    )
    _route_standard_library(minimum)


def _level_number(level: str | int) -> int:
    if isinstance(level, int):
        return level
    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        raise ValueError(f"unknown log level {level!r}: use debug, info, warning, error or critical")
    return number


class _Stdout:
    """Writes lines to whatever stdout is now; a reader that went away never breaks the work."""

    def __init__(self, name: str = "") -> None:
        self.name = name

    def msg(self, line: str) -> None:
        with suppress(OSError, ValueError):
            sys.stdout.write(line + "\n")
            sys.stdout.flush()

    debug = info = warning = warn = error = critical = fatal = exception = log = msg


class _StandardLibraryHandler(logging.Handler):
    """Hands records of ordinary loggers (uvicorn, asyncpg, alembic) to the pipeline."""

    def emit(self, record: logging.LogRecord) -> None:
        logger = structlog.get_logger(record.name)
        logger.log(_known_level(record.levelno), record.getMessage(), exc_info=record.exc_info)


def _known_level(number: int) -> int:
    """The nearest of the five levels below: libraries invent their own, such as uvicorn's TRACE."""
    return max(logging.DEBUG, min(number // 10 * 10, logging.CRITICAL))


def _route_standard_library(minimum: int) -> None:
    root = logging.getLogger()
    root.handlers = [_StandardLibraryHandler()]
    root.setLevel(minimum)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi"):
        logger = logging.getLogger(name)
        logger.handlers = []
        logger.setLevel(logging.NOTSET)  # whoever set one before: the root's decides
        # Without a handler in sight uvicorn skips its own access lines, which ours replace.
        logger.propagate = name != "uvicorn.access"
    for name in _CHATTY:
        logging.getLogger(name).setLevel(max(minimum, logging.WARNING))


def _add_names(service: str) -> Processor:
    def add(logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        event["service"] = service
        if logger is not None and logger.name:
            event["logger"] = logger.name
        return event

    return add


def _renderer(fmt: LogFormat) -> Processor:
    if fmt == "json":
        return structlog.processors.JSONRenderer(serializer=_to_json)
    return structlog.dev.ConsoleRenderer(
        colors=sys.stdout.isatty(), exception_formatter=structlog.dev.plain_traceback
    )


def _to_json(event: MutableMapping[str, Any], default: Callable[[Any], Any]) -> str:
    try:
        return orjson.dumps(event, default=default, option=orjson.OPT_NON_STR_KEYS).decode()
    except TypeError:
        # A value that JSON cannot hold (an int of 100 bits, a lone surrogate) must not lose the line.
        return orjson.dumps({str(name): _plain(value) for name, value in event.items()}).decode()


def _plain(value: object) -> str:
    return str(value).encode("utf-8", "replace").decode()
