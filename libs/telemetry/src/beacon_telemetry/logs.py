"""One log format per process for structlog's loggers and those of the standard library, on stdout."""

import logging
import sys
from collections.abc import Callable, MutableMapping
from typing import Any, Literal, TextIO

import orjson
import structlog
from structlog.stdlib import ProcessorFormatter
from structlog.typing import Processor

from beacon_telemetry.redaction import redact

LogFormat = Literal["console", "json"]

# They log each request or connection, which the middleware of this package logs as well.
_VERBOSE_LIBRARIES = ("httpx", "httpcore", "aiohttp.access", "uvicorn.access", "asyncio")


def configure_logging(service: str, fmt: LogFormat = "console", level: str | int = "info") -> None:
    """Configure all loggers of this process; call it once, before the first log line."""
    minimum = _level_number(level)
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        _add_service(service),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[*shared, ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(minimum),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    handler = _StdoutHandler()
    handler.setFormatter(
        ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                ProcessorFormatter.remove_processors_meta,
                structlog.processors.StackInfoRenderer(),
                structlog.processors.format_exc_info,
                redact,
                _renderer(fmt),
            ],
        )
    )
    _configure_standard_library(handler, minimum)


def _level_number(level: str | int) -> int:
    if isinstance(level, int):
        return level
    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        raise ValueError(f"unknown log level {level!r}: use debug, info, warning, error or critical")
    return number


class _StdoutHandler(logging.StreamHandler[TextIO]):
    """Writes to the current stdout. Lines are dropped, without an error, while it is closed."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stdout
        super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the standard library's name
        if not isinstance(sys.exception(), OSError):
            super().handleError(record)


def _configure_standard_library(handler: logging.Handler, minimum: int) -> None:
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(minimum)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi"):
        logger = logging.getLogger(name)
        logger.handlers = []
        logger.setLevel(logging.NOTSET)  # the level of the root logger applies
        # Without a handler uvicorn does not format access lines.
        logger.propagate = name != "uvicorn.access"
    for name in _VERBOSE_LIBRARIES:
        logging.getLogger(name).setLevel(max(minimum, logging.WARNING))


def _add_service(service: str) -> Processor:
    def add(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        event["service"] = service
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
        # A value that JSON cannot represent (an int of 100 bits, a lone surrogate) must not lose the line.
        return orjson.dumps({str(name): _plain(value) for name, value in event.items()}).decode()


def _plain(value: object) -> str:
    return str(value).encode("utf-8", "replace").decode()
